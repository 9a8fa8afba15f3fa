"""What is wrong with a table: rules, their evidence, and findings with the command that fixes each."""
