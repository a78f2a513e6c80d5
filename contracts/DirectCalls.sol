// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title DirectCalls
/// @notice Functions that only a plain account may call, by a transaction of its own to this contract. A record then
/// lies in a transaction that its author signed, with the record's content as calldata: whoever has the block can check
/// who said what, without running the chain.
/// NOTE: contracts, and accounts that delegated to one (EIP-7702), cannot take part; nor can a transaction that nobody
/// signed on this chain, such as a deposit of the OP stack.
abstract contract DirectCalls {
    error NotDirect(address caller);

    modifier direct() {
        _checkDirect();
        _;
    }

    /// @dev The second condition is for accounts with delegated code, whose transaction may have begun anywhere. The
    /// third is for deposits, which pay nothing: each transaction that is signed pays the base fee at least (EIP-1559).
    function _checkDirect() private view {
        bool isDirect;
        // Of every record, so without the jumps that || would cost.
        assembly ("memory-safe") {
            isDirect := iszero(or(or(xor(caller(), origin()), extcodesize(caller())), lt(gasprice(), basefee())))
        }
        if (!isDirect) revert NotDirect(msg.sender);
    }
}
