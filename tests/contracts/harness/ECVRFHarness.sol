// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ECVRF} from "../../../contracts/ECVRF.sol";

/// @title ECVRFHarness: makes the library's internal functions callable, and measures them
contract ECVRFHarness {
    function verify(uint256 publicKeyX, uint256 publicKeyY, bytes32 alpha, bytes calldata message)
        external
        view
        returns (bytes32 beta, uint128 challenge)
    {
        return ECVRF.verify(publicKeyX, publicKeyY, alpha, message);
    }

    function verifyBytes(uint256 publicKeyX, uint256 publicKeyY, bytes calldata alpha, bytes calldata message)
        external
        view
        returns (bytes32 beta, uint128 challenge)
    {
        return ECVRF.verify(publicKeyX, publicKeyY, bytes(alpha), message);
    }

    function proofOf(bytes calldata message, uint128 challenge) external pure returns (bytes memory) {
        return ECVRF.proofOf(message, challenge);
    }

    function isOnCurve(uint256 x, uint256 y) external pure returns (bool) {
        return ECVRF.isOnCurve(x, y);
    }

    /// @notice Execution gas of one verification: neither the transaction's base cost nor its calldata.
    function measure(uint256 publicKeyX, uint256 publicKeyY, bytes32 alpha, bytes calldata message)
        external
        view
        returns (uint256 gasUsed, bytes32 beta)
    {
        uint256 before = gasleft();
        (beta,) = ECVRF.verify(publicKeyX, publicKeyY, alpha, message);
        gasUsed = before - gasleft();
    }
}
