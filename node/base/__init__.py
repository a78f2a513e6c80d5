"""What everything may use: tensors, whole and durable files, strict tables, keys that can be destroyed."""
