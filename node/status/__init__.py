"""Status of a federation, for people.

subject        what a federation learns
standing       what ``fedgrove status`` says
setbacks       rounds that did not close, and who was missing
participation  why an account's last round counted, or did not
budget         for how many rounds an account can pay
pace           when a block is to be expected
"""
