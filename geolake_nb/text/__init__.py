"""Text that others wrote or will read: messages without secrets, untrusted JSON, edits of JSON that keep the rest."""
