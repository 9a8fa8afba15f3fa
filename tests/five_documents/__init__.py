"""What the five documents ask, line by line, and commands that do what they print."""
