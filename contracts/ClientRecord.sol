// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What the registry stores of an account, in one slot, and hands to the ledger as it is. Zero: never heard of.
///
/// | bits    | field      | meaning                                                                         |
/// | ------- | ---------- | ------------------------------------------------------------------------------- |
/// | 0-159   | keyTag     | low 160 bits of keccak256(abi.encode(vrfX, vrfY)) of the current VRF key        |
/// | 160-191 | client     | index, from 1; 0 when not registered                                            |
/// | 192-231 | activeFrom | block from which the client may be drawn                                        |
/// | 248     | approved   | whether the account may take part                                               |
/// | 249     | left       | whether the client took back all its data, for good                             |
type ClientRecord is uint256;

uint256 constant APPROVED = 1 << 248;
uint256 constant LEFT = 1 << 249;

using {
    keyTag,
    client,
    activeFrom,
    approved,
    hasLeft,
    withKey,
    withApproval,
    withoutApproval,
    withActiveFrom,
    withLeave
} for ClientRecord global;

function newRecord(uint160 tag, uint32 index, uint256 from, bool isApproved) pure returns (ClientRecord) {
    uint256 word = tag | (uint256(index) << 160) | (from << 192);
    return ClientRecord.wrap(isApproved ? word | APPROVED : word);
}

/// @notice The tag by which a VRF key is compared. 160 bits, so that nobody finds two keys with one tag (2⁸⁰ keys).
function keyTagOf(uint256 vrfX, uint256 vrfY) pure returns (uint160 tag) {
    assembly ("memory-safe") {
        mstore(0x00, vrfX)
        mstore(0x20, vrfY)
        tag := shr(96, shl(96, keccak256(0x00, 0x40)))
    }
}

function keyTag(ClientRecord record) pure returns (uint160) {
    return uint160(ClientRecord.unwrap(record));
}

function client(ClientRecord record) pure returns (uint32) {
    return uint32(ClientRecord.unwrap(record) >> 160);
}

function activeFrom(ClientRecord record) pure returns (uint64) {
    return uint40(ClientRecord.unwrap(record) >> 192);
}

function approved(ClientRecord record) pure returns (bool) {
    return ClientRecord.unwrap(record) & APPROVED != 0;
}

function hasLeft(ClientRecord record) pure returns (bool) {
    return ClientRecord.unwrap(record) & LEFT != 0;
}

function withKey(ClientRecord record, uint160 tag, uint256 from) pure returns (ClientRecord) {
    uint256 rest = ClientRecord.unwrap(record) & ~((uint256(type(uint40).max) << 192) | type(uint160).max);
    return ClientRecord.wrap(rest | tag | (from << 192));
}

/// @dev Approval of a registered client takes effect at block `from`; before registration there is nothing to delay.
function withApproval(ClientRecord record, uint256 from) pure returns (ClientRecord) {
    if (record.client() != 0) record = record.withActiveFrom(from);
    return ClientRecord.wrap(ClientRecord.unwrap(record) | APPROVED);
}

function withoutApproval(ClientRecord record) pure returns (ClientRecord) {
    return ClientRecord.wrap(ClientRecord.unwrap(record) & ~APPROVED);
}

function withActiveFrom(ClientRecord record, uint256 from) pure returns (ClientRecord) {
    return record.withKey(record.keyTag(), from);
}

function withLeave(ClientRecord record) pure returns (ClientRecord) {
    return ClientRecord.wrap(ClientRecord.unwrap(record) | LEFT);
}
