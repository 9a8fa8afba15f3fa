"""No filter loses a row, and no change of ours breaks a rule of its table."""
