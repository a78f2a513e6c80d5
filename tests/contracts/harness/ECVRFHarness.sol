// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ECVRF} from "../../../contracts/ECVRF.sol";
import {ECVRFGauge} from "../../../contracts/tools/ECVRFGauge.sol";

/// @title ECVRFHarness: makes the library's internal functions callable, beside the gauge that measures them
contract ECVRFHarness is ECVRFGauge {
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
}
