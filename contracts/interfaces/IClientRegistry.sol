// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ClientRecord} from "../ClientRecord.sol";

/// @notice Who may take part: the accounts that were named before the first round, and nobody else ever; those that the
/// admin approves; or everybody, which is for practice.
enum Membership {
    Named,
    Approved,
    Open
}

/// @notice What the registry knows of one account. All zero for an account it has never heard of.
/// @param client index of the client, from 1 in registration order; 0 when not registered
/// @param activeFrom block from which the client may be drawn (a round opened earlier excludes it)
/// @param approved whether the client may take part (always true once registered where membership is open)
/// @param left whether the client took back all its data
/// @param keyTag low 160 bits of keccak256(abi.encode(vrfX, vrfY)) of the current VRF key
struct ClientView {
    uint32 client;
    uint64 activeFrom;
    bool approved;
    bool left;
    uint160 keyTag;
}

/// @title Who may take part, and with which keys
/// @notice A client is an account with a VRF key on secp256k1 and an X25519 mailbox key. The VRF key comes with a proof
/// of possession: an ECVRF proof over keccak256(abi.encode("register", chainid, registry, account)).
///
/// NOTE: keys live in events; storage holds a 160-bit tag of the VRF key, which is all that a draw has to compare.
///
/// WARNING: membership says nothing about who stands behind an account. Where membership is open, one person may
/// register any number of clients, so it is for practice only.
interface IClientRegistry {
    /// @dev The first event; the transaction that created the contract holds the terms that are fixed in it.
    event RegistryFounded();
    /// @param proof the 81-byte RFC 9381 proof of possession
    event Registered(
        address indexed account,
        uint32 indexed client,
        uint256 vrfX,
        uint256 vrfY,
        bytes32 mailboxKey,
        uint64 activeFrom,
        bytes proof
    );
    /// @param activeFrom block from which the account may be drawn; 0 for one that has not registered
    event Approved(address indexed account, uint64 activeFrom);
    event Revoked(address indexed account);
    /// @param proof the 81-byte RFC 9381 proof of possession of the new key
    event VrfKeyRotated(
        address indexed account, uint32 indexed client, uint256 vrfX, uint256 vrfY, uint64 activeFrom, bytes proof
    );
    event MailboxKeyRotated(address indexed account, uint32 indexed client, bytes32 mailboxKey);
    /// @param points how many of its data points the client takes back; 0: all that it has
    /// @param digest a commitment to which ones. NOTE: not checked
    event Withdrawn(address indexed account, uint32 indexed client, uint32 points, bytes32 digest);
    event Resumed(address indexed account, uint32 indexed client, uint64 activeFrom);

    /// @dev The account registered before, with other keys; they are changed by the rotations.
    error AlreadyRegistered(address account, uint32 client);
    error NotRegistered(address account);
    /// @dev The VRF key is, or once was, that of `owner`.
    error KeyTaken(uint160 keyTag, address owner);
    /// @dev The coordinates are not below p, or not on secp256k1.
    error NotOnCurve(uint256 vrfX, uint256 vrfY);
    error ZeroMailboxKey(address account);
    error NotApproved(address account);
    error NotAdmin(address caller);
    /// @dev Named members are fixed with the opening of the first round.
    error MembersFixed();
    /// @dev Approval and revocation exist only where membership is not open.
    error MembershipIsOpen();
    /// @dev There is an admin exactly where membership is approved.
    error WrongAdmin(Membership membership, address admin);
    error ZeroAddress(bytes32 parameter);
    error ActivationDelayOutOfRange(uint64 blocks);

    /// @notice Registers the caller, which must be approved where membership is not open. For an account that registered
    /// with the same keys it returns the index, changes nothing and emits nothing, so that a client may call it at every
    /// start.
    /// @param vrfX x coordinate of the VRF key, below p
    /// @param vrfY y coordinate of the VRF key, below p
    /// @param mailboxKey X25519 public key. NOTE: only zero is refused; other low-order points are the sender's to
    /// refuse
    /// @param message the proof of possession with its hints, laid out as the ECVRF library says
    /// @return client index of the client
    function register(uint256 vrfX, uint256 vrfY, bytes32 mailboxKey, bytes calldata message)
        external
        returns (uint32 client);

    /// @notice Has the caller drawn again that was listed as idle: it is then waited for from `activeFrom` on.
    function resume() external;

    /// @notice Replaces the caller's VRF key. The client can be drawn again only in rounds opened from `activeFrom` on,
    /// so that no key is chosen after a seed is known. A key that was ever used is never accepted again.
    function rotateVrfKey(uint256 vrfX, uint256 vrfY, bytes calldata message) external;

    /// @notice Replaces the caller's mailbox key at once.
    function rotateMailboxKey(bytes32 mailboxKey) external;

    /// @notice Takes back the consent to the use of some of the caller's data, or of all.
    /// NOTE: but that a client that took back everything draws no more, nothing but the record: what else follows from
    /// it is for the federation's terms, and for its audit, to say.
    /// @param points how many points, 0: all that it has; it then leaves for good
    /// @param digest a commitment to which ones
    function withdraw(uint32 points, bytes32 digest) external;

    /// @notice Lets accounts take part. No effect on those that are approved already. Before the round opens from which
    /// a revocation would have acted, it takes the revocation back and changes nothing else. For the admin; where
    /// members are named, for who founded the registry, until the first round opens.
    function approve(address[] calldata accounts) external;

    /// @notice Ends the approval of `account`, from the next round on that opens in a later block: it may still take
    /// part in the one that runs.
    function revoke(address account) external;

    /// @notice Checks a VRF proof by a registered key, which is on the curve; reverts with the ECVRF library's errors.
    /// @param message the proof with its hints, laid out as the ECVRF library says
    /// @return beta the VRF output
    /// @return challenge what the message lacks of the 81-byte RFC 9381 proof
    function verifyVrf(uint256 vrfX, uint256 vrfY, bytes32 alpha, bytes calldata message)
        external
        view
        returns (bytes32 beta, uint128 challenge);

    function clientOf(address account) external view returns (ClientView memory);

    /// @notice The block in which the approval of `account` was last ended, 0 if it never was.
    function revokedAt(address account) external view returns (uint64);

    /// @notice {clientOf} in one word, laid out as {ClientRecord} says: what a draw reads, for less gas.
    function packedClientOf(address account) external view returns (ClientRecord);

    /// @notice The number of clients ever registered, which is also the highest index.
    function clientCount() external view returns (uint32);

    /// @notice The number of clients that are approved and did not leave.
    function memberCount() external view returns (uint32);

    /// @notice The block in which it last changed who is a member, or from when on a member may be drawn.
    function changedAt() external view returns (uint64);

    function membership() external view returns (Membership);

    function admin() external view returns (address);

    function ledger() external view returns (address);

    /// @notice Blocks between a registration (or approval, or rotation of the VRF key) and `activeFrom`.
    function activationDelay() external view returns (uint64);
}
