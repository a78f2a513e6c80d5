// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CooperationTree, Frontier} from "../CooperationTree.sol";
import {Phase} from "../interfaces/ITrainingLedger.sol";
import {ClientState} from "./ClientState.sol";
import {RoundState, Status} from "./RoundState.sol";
import {RoundStore} from "./RoundStore.sol";

/// @title SealPhase
/// @notice The order of the drawn clients, checked and fixed.
abstract contract SealPhase is RoundStore {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    /// @dev An order that one sender is placing in chunks.
    struct Progress {
        uint32 placed;
        uint128 last;
        bytes32[17] peaks;
    }

    mapping(uint64 round => mapping(address sealer => Progress)) private _progress;

    function seal(uint64 round, bytes calldata tickets, bytes calldata permutation) external {
        Round storage entry = _sealable(round);
        RoundState state = entry.state;
        if (tickets.length != uint256(state.drawn()) * CooperationTree.TICKET_BYTES) {
            revert TicketBytesInvalid(tickets.length);
        }
        if (CooperationTree.chainOf(tickets) != state.chainLink()) revert WrongTickets(round);
        _seal(round, entry, CooperationTree.sortedRoot(tickets, permutation));
    }

    function sealChunk(uint64 round, bytes calldata tickets) external {
        Round storage entry = _sealable(round);
        uint256 n = tickets.length / CooperationTree.TICKET_BYTES;
        if (n == 0 || tickets.length % CooperationTree.TICKET_BYTES != 0) revert TicketBytesInvalid(tickets.length);
        Progress storage progress = _progress[round][msg.sender];
        Frontier memory frontier = _load(progress);
        for (uint256 i = 0; i < n; ++i) {
            uint128 ticket = CooperationTree.ticketAt(tickets, i);
            _checkDrawn(round, ticket);
            CooperationTree.append(frontier, ticket);
        }
        _store(progress, frontier);
        emit SealChunk(round, uint32(frontier.count));
        // Ascending tickets that were all drawn: when there are as many as draws, none is missing.
        if (frontier.count == entry.state.drawn()) _seal(round, entry, CooperationTree.root(frontier));
    }

    function placedSoFar(uint64 round, address sealer) external view returns (uint32) {
        return _progress[round][sealer].placed;
    }

    function _seal(uint64 round, Round storage entry, bytes32 orderRoot) private {
        RoundState state = entry.state;
        entry.state = state.withStatus(Status.Sealed, block.number);
        entry.orderRoot = orderRoot;
        lastSealed = round;
        emit Sealed(round, state.drawn(), orderRoot);
    }

    /// @dev The round, which must be in its seal phase with enough clients.
    function _sealable(uint64 round) private view returns (Round storage entry) {
        entry = _round(round);
        RoundState state = entry.state;
        if (!_isBetween(state, Status.Open, drawOffset, sealOffset)) _wrongPhase(round, state, Phase.Seal);
        if (state.drawn() < quorum) revert QuorumMissed(round, state.drawn(), quorum);
    }

    function _checkDrawn(uint64 round, uint128 ticket) private view {
        ClientState client = _client(accounts[uint32(ticket)]).state;
        if (client.drawRound() != round || client.prefix() != ticket >> 32) revert UnknownTicket(round, ticket);
    }

    function _load(Progress storage progress) private view returns (Frontier memory frontier) {
        frontier.count = progress.placed;
        frontier.last = progress.last;
        for (uint256 level = 0; level < 17; ++level) {
            if ((frontier.count >> level) & 1 == 1) frontier.peaks[level] = progress.peaks[level];
        }
    }

    function _store(Progress storage progress, Frontier memory frontier) private {
        progress.placed = uint32(frontier.count);
        progress.last = uint128(frontier.last);
        for (uint256 level = 0; level < 17; ++level) {
            if ((frontier.count >> level) & 1 == 1) progress.peaks[level] = frontier.peaks[level];
        }
    }
    // slither-disable-end shadowing-local
}
