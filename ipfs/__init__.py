"""Content-addressed storage: identifiers, archives, and stores that verify every byte they return."""
