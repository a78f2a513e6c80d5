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
    /// @dev An order that one sender is placing in chunks.
    struct Progress {
        uint32 placed;
        uint128 last;
        bytes32[17] peaks;
    }

    mapping(uint64 round => mapping(address sealer => Progress)) private _progress;

    function seal(uint64 round, bytes calldata tickets, bytes calldata permutation) external {
        RoundState state = _sealable(round);
        if (tickets.length != uint256(state.drawn()) * CooperationTree.TICKET_BYTES) {
            revert TicketBytesInvalid(tickets.length);
        }
        if (CooperationTree.chainOf(tickets) != state.chainLink()) revert WrongTickets(round);
        _seal(round, state, CooperationTree.sortedRoot(tickets, permutation));
    }

    function sealChunk(uint64 round, bytes calldata tickets) external {
        RoundState state = _sealable(round);
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
        if (frontier.count == state.drawn()) _seal(round, state, CooperationTree.root(frontier));
    }

    function placed(uint64 round, address sealer) external view returns (uint32) {
        return _progress[round][sealer].placed;
    }

    function _seal(uint64 round, RoundState state, bytes32 orderRoot) private {
        states[round] = state.withStatus(Status.Sealed, block.number);
        orderRoots[round] = orderRoot;
        lastSealed = round;
        emit Sealed(round, state.drawn(), orderRoot);
    }

    function _sealable(uint64 round) private view returns (RoundState state) {
        state = _inPhase(round, Phase.Seal);
        if (state.drawn() < quorum) revert QuorumMissed(round, state.drawn(), quorum);
    }

    function _checkDrawn(uint64 round, uint128 ticket) private view {
        ClientState client = clients[accounts[uint32(ticket)]];
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
}
