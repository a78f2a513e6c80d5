// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title BlockHeader
/// @notice Reads a field of an Ethereum block header (RLP).
/// NOTE: it is not checked that the bytes are a header; callers compare their hash with that of a block first.
library BlockHeader {
    /// @dev The place of the field among a header's fields, counted from 0.
    uint256 private constant MIX = 13;

    error HeaderTooShort(uint256 length);
    /// @dev The field is not one of 32 bytes: the chain's headers have other fields.
    error MixMissing(uint256 place);

    /// @notice The RANDAO mix of a header (EIP-4399), its field `mixHash`.
    function mixOf(bytes calldata header) internal pure returns (bytes32) {
        uint256 place = 3; // a header has more than 255 bytes and fewer than 65,536: three bytes say its length
        for (uint256 i = 0; i < MIX; ++i) {
            place += _lengthAt(header, place);
        }
        if (header.length < place + 33) revert HeaderTooShort(header.length);
        if (header[place] != 0xa0) revert MixMissing(place);
        return bytes32(header[place + 1:place + 33]);
    }

    /// @dev How many bytes the string at `place` takes, its prefix included.
    function _lengthAt(bytes calldata header, uint256 place) private pure returns (uint256) {
        if (header.length < place + 3) revert HeaderTooShort(header.length);
        uint256 prefix = uint8(header[place]);
        if (prefix < 0x80) return 1;
        if (prefix <= 0xb7) return prefix - 0x7f;
        uint256 length = uint8(header[place + 1]);
        return prefix == 0xb8 ? length + 2 : ((length << 8) | uint8(header[place + 2])) + 3;
    }
}
