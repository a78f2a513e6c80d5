// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ClientRecord} from "../ClientRecord.sol";
import {IClientRegistry} from "../interfaces/IClientRegistry.sol";
import {Phase, RoundView} from "../interfaces/ITrainingLedger.sol";
import {ClientState} from "./ClientState.sol";
import {RoundClock} from "./RoundClock.sol";
import {RoundState, Status} from "./RoundState.sol";

/// @title RoundStore
/// @notice The storage of the ledger, its plain views, and who may act for the coordinator.
abstract contract RoundStore is RoundClock {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    IClientRegistry public immutable registry;
    address public immutable coordinator;

    uint64 public currentRound;
    /// @dev The latest round that was sealed, 0 for none; its root enters the next seed.
    uint64 internal lastSealed;
    uint64 public lastClosed;
    bytes32 public currentModel;
    /// @dev What the members agreed on; the same in every round.
    bytes32 internal config;

    /// @param state see {RoundState}
    /// @param seed zero until fixed
    /// @param orderRoot zero until sealed
    /// @param model digest of the model that the round trains from
    struct Round {
        RoundState state;
        bytes32 seed;
        bytes32 orderRoot;
        bytes32 model;
    }

    struct Client {
        ClientState state;
    }

    /// @dev Where rounds and clients lie: at these places plus the round number times four, or plus the account. They
    /// are mappings without the hash, which a commitment could not afford; as the places are hashes and the keys have
    /// 64 and 160 bits, they meet neither each other nor a mapping.
    uint256 private constant ROUNDS = uint256(keccak256("fedgrove.TrainingLedger.rounds"));
    uint256 private constant CLIENTS = uint256(keccak256("fedgrove.TrainingLedger.clients"));

    /// @dev Written at the first draw of a client; {sealChunk} finds a client's state by it.
    mapping(uint32 client => address) internal accounts;

    constructor(IClientRegistry registry_, address coordinator_) {
        if (coordinator_ == address(0)) revert ZeroCoordinator();
        address itsLedger = registry_.ledger();
        if (itsLedger != address(this)) revert WrongRegistry(address(registry_), itsLedger);
        registry = registry_;
        coordinator = coordinator_;
    }

    function phase(uint64 round_) external view returns (Phase) {
        return _phaseOf(_round(round_).state);
    }

    function sitsOutUntil(address account) external view returns (uint64) {
        return _client(account).state.sitsOutUntil();
    }

    function round(uint64 number) external view returns (RoundView memory view_) {
        Round storage entry = _round(number);
        RoundState state = entry.state;
        if (state.status() == Status.None) return view_;
        uint256 start = state.openedAt();
        return RoundView({
            phase: _phaseOf(state),
            openedAt: uint64(start),
            seedBlock: uint64(start + seedOffset),
            drawEnd: uint64(start + drawOffset),
            sealEnd: uint64(start + sealOffset),
            shareEnd: uint64(start + shareOffset),
            commitEnd: uint64(start + commitOffset),
            recoverEnd: uint64(start + recoverOffset),
            closeEnd: uint64(start + closeOffset),
            samplingRate: state.samplingRate(),
            drawn: state.drawn(),
            committed: state.committed(),
            seed: entry.seed,
            orderRoot: entry.orderRoot,
            modelDigest: entry.model
        });
    }

    function _round(uint64 round_) internal pure returns (Round storage entry) {
        uint256 base = ROUNDS;
        assembly ("memory-safe") {
            entry.slot := add(base, shl(2, round_))
        }
    }

    function _client(address account) internal pure returns (Client storage client) {
        uint256 base = CLIENTS;
        assembly ("memory-safe") {
            client.slot := add(base, account)
        }
    }

    /// @dev Reverts unless the caller is the coordinator or, more than `coordinatorGrace` blocks after `since`, an
    /// active client.
    function _onlyCoordinator(uint256 since) internal view {
        if (msg.sender == coordinator) return;
        uint256 until = since + coordinatorGrace;
        if (block.number <= until) revert OnlyCoordinator(msg.sender, until);
        ClientRecord member = registry.packedClientOf(msg.sender);
        if (member.client() == 0 || !member.approved() || member.activeFrom() > block.number) {
            revert NotActiveClient(msg.sender);
        }
    }
    // slither-disable-end shadowing-local
}
