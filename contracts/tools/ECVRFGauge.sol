// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECVRF} from "../ECVRF.sol";

/// @title ECVRFGauge
/// @notice Measures what the verification of a proof costs, for `fedgrove bench vrf`. No other contract uses it.
contract ECVRFGauge {
    /// @return gasUsed execution gas of one verification: neither the transaction's base cost nor its calldata
    /// @return beta the VRF output
    function measure(uint256 publicKeyX, uint256 publicKeyY, bytes32 alpha, bytes calldata message)
        external
        view
        returns (uint256 gasUsed, bytes32 beta)
    {
        uint256 before = gasleft();
        // slither-disable-next-line unused-return -- the challenge plays no part in the cost
        (beta,) = ECVRF.verify(publicKeyX, publicKeyY, alpha, message);
        gasUsed = before - gasleft();
    }
}
