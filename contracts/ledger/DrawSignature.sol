// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SignedDraw} from "../interfaces/ITrainingLedger.sol";

/// @title DrawSignature
/// @notice EIP-712 signatures under draws that somebody else submits.
/// NOTE: accounts that are contracts (ERC-1271) cannot sign.
library DrawSignature {
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant DRAW_TYPEHASH = keccak256(
        "Draw(uint64 round,address account,uint256 vrfX,uint256 vrfY,bytes32 maskKey,bytes32 sealKey,uint32 samples,bytes message)"
    );
    /// @dev Half the order of secp256k1; of the two valid values of s the lower is asked for (EIP-2).
    uint256 private constant MAX_S = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    /// @notice The domain of this contract on this chain, computed anew each time so that it follows a fork of the
    /// chain.
    function domainSeparator() internal view returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256("fedgrove"), keccak256("1"), block.chainid, address(this))
        );
    }

    /// @notice Whether `item.account` signed this draw for `round`. Never reverts on what the signature holds.
    function isValid(uint64 round, SignedDraw calldata item, bytes32 separator) internal pure returns (bool) {
        bytes calldata signature = item.signature;
        if (signature.length != 65) return false;
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        if (uint256(s) > MAX_S) return false;
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", separator, _structHash(round, item)));
        address signer = ecrecover(digest, uint8(signature[64]), r, s);
        return signer != address(0) && signer == item.account;
    }

    function _structHash(uint64 round, SignedDraw calldata item) private pure returns (bytes32) {
        return keccak256(
            abi.encode(
                DRAW_TYPEHASH,
                round,
                item.account,
                item.vrfX,
                item.vrfY,
                item.maskKey,
                item.sealKey,
                item.samples,
                keccak256(item.message)
            )
        );
    }
}
