#!/bin/sh
# Makes a Kubo node private before it starts: no bootstrap, no discovery, no routing. Run by the image's entry point.
set -eu
ipfs bootstrap rm --all
ipfs config --json Discovery.MDNS.Enabled false
ipfs config Routing.Type none
ipfs config --json Swarm.DisableNatPortMap true
ipfs config --json Addresses.Gateway '[]'
ipfs config --json Addresses.Swarm '["/ip4/0.0.0.0/tcp/4001"]'
