// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title DirectCalls
/// @notice Functions that only a plain account may call, by a transaction of its own to this contract. A record then
/// lies in a transaction that its author signed, with the record's content as calldata: whoever has the block can check
/// who said what, without running the chain.
/// NOTE: contracts, and accounts that delegated to one (EIP-7702), cannot take part.
abstract contract DirectCalls {
    error NotDirect(address caller);

    modifier direct() {
        _checkDirect();
        _;
    }

    /// @dev The second condition is for accounts with delegated code, whose transaction may have begun anywhere.
    function _checkDirect() private view {
        if (msg.sender != tx.origin || msg.sender.code.length != 0) revert NotDirect(msg.sender);
    }
}
