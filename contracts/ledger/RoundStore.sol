// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IClientRegistry, ClientView} from "../interfaces/IClientRegistry.sol";
import {Phase, RoundView} from "../interfaces/ITrainingLedger.sol";
import {ClientState} from "./ClientState.sol";
import {RoundClock} from "./RoundClock.sol";
import {RoundState} from "./RoundState.sol";

/// @title RoundStore
/// @notice The storage of the ledger, its plain views, and who may act for the coordinator.
abstract contract RoundStore is RoundClock {
    IClientRegistry public immutable registry;
    address public immutable coordinator;

    uint64 public currentRound;
    /// @dev The latest round that was sealed, 0 for none; its root enters the next seed.
    uint64 internal lastSealed;
    bytes32 public currentModel;

    mapping(uint64 round => RoundState) internal states;
    mapping(uint64 round => bytes32) internal seeds;
    mapping(uint64 round => bytes32) internal orderRoots;
    mapping(uint64 round => bytes32) internal models;
    mapping(address account => ClientState) internal clients;
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
        return _phaseOf(states[round_]);
    }

    function sitsOutUntil(address account) external view returns (uint64) {
        return clients[account].sitsOutUntil();
    }

    function round(uint64 number) external view returns (RoundView memory view_) {
        RoundState state = states[number];
        if (!state.exists()) return view_;
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
            seed: seeds[number],
            orderRoot: orderRoots[number],
            modelDigest: models[number]
        });
    }

    /// @dev The state of a round that is in `required`.
    function _inPhase(uint64 round_, Phase required) internal view returns (RoundState state) {
        state = states[round_];
        Phase current = _phaseOf(state);
        if (current != required) revert WrongPhase(round_, current, required);
    }

    /// @dev Reverts unless the caller is the coordinator or, more than `coordinatorGrace` blocks after `since`, an active client.
    function _onlyCoordinator(uint256 since) internal view {
        if (msg.sender == coordinator) return;
        uint256 until = since + coordinatorGrace;
        if (block.number <= until) revert OnlyCoordinator(msg.sender, until);
        ClientView memory member = registry.clientOf(msg.sender);
        if (member.client == 0 || !member.approved || member.activeFrom > block.number) {
            revert NotActiveClient(msg.sender);
        }
    }
}
