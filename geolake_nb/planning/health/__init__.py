"""What is wrong with a table: rules, what they look at, and findings with the command that mends each."""
