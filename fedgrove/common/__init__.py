"""What ``chain``, ``ipfs`` and ``node`` all use: bounded requests, decoding of what others wrote, text for people."""
