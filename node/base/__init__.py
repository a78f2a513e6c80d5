"""Foundations for all packages: tensors, whole and durable files, strict tables, keys that can be destroyed."""
