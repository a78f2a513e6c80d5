// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ClientRecord, keyTagOf, newRecord} from "./ClientRecord.sol";
import {DirectCalls} from "./DirectCalls.sol";
import {ECVRF} from "./ECVRF.sol";
import {ClientView, IClientRegistry, Membership} from "./interfaces/IClientRegistry.sol";
import {ITrainingLedger} from "./interfaces/ITrainingLedger.sol";

/// @title ClientRegistry
/// @notice See {IClientRegistry}. Nothing here is upgradeable, payable or removable.
///
/// WARNING: `admin` can keep accounts out but can neither register, nor change a key, nor touch a round.
contract ClientRegistry is IClientRegistry, DirectCalls {
    /// @dev One slot for each VRF key ever used: its owner, and a tag of the owner's mailbox key that tells a restart
    /// (same keys) from a change of keys. The tag of a key that was rotated away is stale and never read.
    struct KeySlot {
        address owner;
        uint96 mailboxTag;
    }

    Membership public immutable membership;
    address public immutable admin;
    /// @dev Who may name members before the first round, where there is no admin.
    address private immutable founder;
    address public immutable ledger;
    uint64 public immutable activationDelay;

    uint32 public clientCount;
    uint32 public memberCount;
    uint64 public changedAt;
    mapping(address account => ClientRecord) private _records;
    mapping(uint160 keyTag => KeySlot) private _keys;
    /// @inheritdoc IClientRegistry
    mapping(address account => uint64 number) public revokedAt;

    /// @param membership_ who may take part
    /// @param admin_ who approves and revokes; not zero exactly where membership is approved
    /// @param ledger_ address of the TrainingLedger, computed before its deployment
    /// @param activationDelay_ blocks, 1 to 2³²−1
    /// @param members the first accounts that may take part; none where membership is open
    constructor(
        Membership membership_,
        address admin_,
        address ledger_,
        uint64 activationDelay_,
        address[] memory members
    ) {
        if (ledger_ == address(0)) revert ZeroAddress("ledger");
        if ((admin_ == address(0)) == (membership_ == Membership.Approved)) revert WrongAdmin(membership_, admin_);
        // Whoever registers in the block in which a round opens must not be in it: the round counts on those before.
        if (activationDelay_ == 0 || activationDelay_ > type(uint32).max) {
            revert ActivationDelayOutOfRange(activationDelay_);
        }
        membership = membership_;
        admin = admin_;
        founder = msg.sender;
        ledger = ledger_;
        activationDelay = activationDelay_;
        emit RegistryFounded();
        if (membership_ == Membership.Open && members.length != 0) revert MembershipIsOpen();
        for (uint256 i = 0; i < members.length; ++i) {
            _approve(members[i]);
        }
    }

    /// @inheritdoc IClientRegistry
    function register(uint256 vrfX, uint256 vrfY, bytes32 mailboxKey, bytes calldata message)
        external
        direct
        returns (uint32 client)
    {
        ClientRecord record = _records[msg.sender];
        uint160 tag = keyTagOf(vrfX, vrfY);
        uint96 mailboxTag = _mailboxTag(mailboxKey);
        if (record.client() != 0) {
            if (record.keyTag() == tag && _keys[tag].mailboxTag == mailboxTag) return record.client();
            revert AlreadyRegistered(msg.sender, record.client());
        }
        if (membership != Membership.Open && !record.approved()) revert NotApproved(msg.sender);
        bytes memory proof = _takeKey(vrfX, vrfY, tag, mailboxTag, message);
        client = clientCount + 1;
        clientCount = client;
        _changeMembers(memberCount + 1);
        uint256 activeFrom = _activeFrom();
        _records[msg.sender] = newRecord(tag, client, activeFrom, true);
        emit Registered(msg.sender, client, vrfX, vrfY, mailboxKey, uint64(activeFrom), proof);
    }

    /// @inheritdoc IClientRegistry
    function resume() external direct {
        ClientRecord record = _registered(msg.sender);
        uint256 activeFrom = _activeFrom();
        _records[msg.sender] = record.withActiveFrom(activeFrom);
        if (_counts(record)) _changeMembers(memberCount);
        emit Resumed(msg.sender, record.client(), uint64(activeFrom));
    }

    /// @inheritdoc IClientRegistry
    function rotateVrfKey(uint256 vrfX, uint256 vrfY, bytes calldata message) external direct {
        ClientRecord record = _registered(msg.sender);
        uint160 tag = keyTagOf(vrfX, vrfY);
        bytes memory proof = _takeKey(vrfX, vrfY, tag, _keys[record.keyTag()].mailboxTag, message);
        uint256 activeFrom = _activeFrom();
        _records[msg.sender] = record.withKey(tag, activeFrom);
        if (_counts(record)) _changeMembers(memberCount);
        emit VrfKeyRotated(msg.sender, record.client(), vrfX, vrfY, uint64(activeFrom), proof);
    }

    /// @inheritdoc IClientRegistry
    function rotateMailboxKey(bytes32 mailboxKey) external direct {
        ClientRecord record = _registered(msg.sender);
        _keys[record.keyTag()].mailboxTag = _mailboxTag(mailboxKey);
        emit MailboxKeyRotated(msg.sender, record.client(), mailboxKey);
    }

    /// @inheritdoc IClientRegistry
    function withdraw(uint32 points, bytes32 digest) external direct {
        ClientRecord record = _registered(msg.sender);
        if (points == 0) {
            _records[msg.sender] = record.withLeave();
            if (_counts(record)) _changeMembers(memberCount - 1);
        }
        emit Withdrawn(msg.sender, record.client(), points, digest);
    }

    /// @inheritdoc IClientRegistry
    function approve(address[] calldata accounts) external direct {
        if (membership == Membership.Named) {
            if (msg.sender != founder) revert NotAdmin(msg.sender);
            if (ITrainingLedger(ledger).currentRound() != 0) revert MembersFixed();
        } else {
            _onlyAdmin();
        }
        for (uint256 i = 0; i < accounts.length; ++i) {
            _approve(accounts[i]);
        }
    }

    /// @inheritdoc IClientRegistry
    function revoke(address account) external direct {
        _onlyAdmin();
        ClientRecord record = _records[account];
        if (!record.approved()) return;
        _records[account] = record.withoutApproval();
        revokedAt[account] = uint64(block.number);
        if (_counts(record)) _changeMembers(memberCount - 1);
        emit Revoked(account);
    }

    /// @inheritdoc IClientRegistry
    function verifyVrf(uint256 vrfX, uint256 vrfY, bytes32 alpha, bytes calldata message)
        external
        view
        returns (bytes32 beta, uint128 challenge)
    {
        (beta, challenge) = ECVRF.verify(vrfX, vrfY, alpha, message);
    }

    /// @inheritdoc IClientRegistry
    function clientOf(address account) external view returns (ClientView memory) {
        ClientRecord record = _records[account];
        return ClientView(record.client(), record.activeFrom(), record.approved(), record.hasLeft(), record.keyTag());
    }

    /// @inheritdoc IClientRegistry
    function packedClientOf(address account) external view returns (ClientRecord) {
        return _records[account];
    }

    /// @dev Checks that the key is on the curve, free, and held by the caller, and marks it as the caller's.
    /// @return proof the 81-byte RFC 9381 proof of possession
    function _takeKey(uint256 vrfX, uint256 vrfY, uint160 tag, uint96 mailboxTag, bytes calldata message)
        private
        returns (bytes memory proof)
    {
        if (!ECVRF.isOnCurve(vrfX, vrfY)) revert NotOnCurve(vrfX, vrfY);
        address owner = _keys[tag].owner;
        if (owner != address(0)) revert KeyTaken(tag, owner);
        bytes32 alpha = keccak256(abi.encode("register", block.chainid, address(this), msg.sender));
        // The VRF output of a proof of possession has no use.
        // slither-disable-next-line unused-return
        (, uint128 challenge) = ECVRF.verify(vrfX, vrfY, alpha, message);
        _keys[tag] = KeySlot(msg.sender, mailboxTag);
        return ECVRF.proofOf(message, challenge);
    }

    function _approve(address account) private {
        ClientRecord record = _records[account];
        if (record.approved()) return;
        // An approval must not add the client to a round that runs. One that takes back a revocation before the next
        // round must not take the client out of it either, so it leaves `activeFrom` as it was.
        record = record.withApproval(_hasActed(revokedAt[account]) ? _activeFrom() : record.activeFrom());
        _records[account] = record;
        if (_counts(record)) _changeMembers(memberCount + 1);
        emit Approved(account, record.activeFrom());
    }

    /// @dev Called for changes of members alone: with its block, members get a reason to skip a round.
    function _changeMembers(uint32 count) private {
        // In a loop, when the admin approves many that registered before.
        // slither-disable-start costly-loop
        memberCount = count;
        changedAt = uint64(block.number);
        // slither-disable-end costly-loop
    }

    /// @dev Whether an account is one of {memberCount}.
    function _counts(ClientRecord record) private pure returns (bool) {
        return record.client() != 0 && record.approved() && !record.hasLeft();
    }

    function _onlyAdmin() private view {
        if (membership == Membership.Open) revert MembershipIsOpen();
        // Where members are named the admin is the zero address, from which some nodes let anybody call.
        if (membership == Membership.Named || msg.sender != admin) revert NotAdmin(msg.sender);
    }

    function _registered(address account) private view returns (ClientRecord record) {
        record = _records[account];
        if (record.client() == 0) revert NotRegistered(account);
    }

    /// @dev Whether a round opened since the block `revoked`, 0 for an account that was never revoked.
    function _hasActed(uint64 revoked) private view returns (bool) {
        if (revoked == 0) return true;
        ITrainingLedger rounds = ITrainingLedger(ledger);
        // In a loop, when the admin approves many that were revoked; the ledger is trusted since the deployment.
        // slither-disable-next-line calls-loop
        return revoked < rounds.round(rounds.currentRound()).openedAt;
    }

    function _activeFrom() private view returns (uint256) {
        return block.number + activationDelay;
    }

    function _mailboxTag(bytes32 mailboxKey) private view returns (uint96) {
        if (mailboxKey == 0) revert ZeroMailboxKey(msg.sender);
        return uint96(uint256(keccak256(abi.encode(mailboxKey))));
    }
}
