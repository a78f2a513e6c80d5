// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BlockHeader} from "../BlockHeader.sol";
import {CooperationTree, Frontier} from "../CooperationTree.sol";
import {Phase} from "../interfaces/ITrainingLedger.sol";
import {ClientState} from "./ClientState.sol";
import {RoundState} from "./RoundState.sol";
import {RoundStore} from "./RoundStore.sol";

/// @title SealPhase
/// @notice The randomness of the order, which comes from a block after the last draw, and the order of the drawn
/// clients, checked and fixed.
abstract contract SealPhase is RoundStore {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    /// @dev An order that one sender is placing in chunks.
    struct Progress {
        uint32 placed;
        bytes32 orderSeed;
        bytes32 last;
        bytes32[17] peaks;
    }

    mapping(uint64 round => mapping(address sealer => Progress)) private _progress;

    function seal(uint64 round, bytes calldata tickets, bytes calldata permutation, bytes calldata header)
        external
        direct
    {
        Round storage entry = _sealable(round);
        RoundState state = entry.state;
        if (tickets.length != uint256(state.drawn()) * CooperationTree.TICKET_BYTES) {
            revert TicketBytesInvalid(tickets.length);
        }
        if (CooperationTree.chainOf(tickets) != state.chainLink()) revert WrongTickets(round);
        bytes32 orderSeed = _orderSeed(round, state, header);
        _seal(round, entry, orderSeed, CooperationTree.sortedRoot(tickets, permutation, orderSeed));
    }

    function sealChunk(uint64 round, bytes calldata tickets, bytes calldata header) external direct {
        Round storage entry = _sealable(round);
        uint256 n = tickets.length / CooperationTree.TICKET_BYTES;
        if (n == 0 || tickets.length % CooperationTree.TICKET_BYTES != 0) revert TicketBytesInvalid(tickets.length);
        Progress storage progress = _progress[round][msg.sender];
        bytes32 orderSeed = progress.orderSeed;
        if (orderSeed == 0) {
            orderSeed = _orderSeed(round, entry.state, header);
            progress.orderSeed = orderSeed;
        }
        Frontier memory frontier = _load(progress);
        for (uint256 i = 0; i < n; ++i) {
            uint128 ticket = CooperationTree.ticketAt(tickets, i);
            _checkDrawn(round, ticket);
            CooperationTree.append(frontier, ticket, orderSeed);
        }
        _store(progress, frontier);
        emit SealChunk(round, uint32(frontier.count));
        // Ascending tickets that were all drawn: when there are as many as draws, none is missing.
        if (frontier.count == entry.state.drawn()) _seal(round, entry, orderSeed, CooperationTree.root(frontier));
    }

    function placedSoFar(uint64 round, address sealer) external view returns (uint32) {
        return _progress[round][sealer].placed;
    }

    function _seal(uint64 round, Round storage entry, bytes32 orderSeed, bytes32 orderRoot) private {
        RoundState state = entry.state;
        entry.state = state.withSeal(block.number);
        entry.orderRoot = orderRoot;
        lastSealed = round;
        if (state.samplingRate() == EVERYONE) fullRoundAt[fullRounds++ % absenceLimit] = round;
        emit Sealed(round, state.drawn(), orderSeed, orderRoot);
    }

    /// @dev The round, which must be in its seal phase with enough clients.
    function _sealable(uint64 round) private view returns (Round storage entry) {
        entry = _round(round);
        RoundState state = entry.state;
        if (_phaseOf(round, state) != Phase.Seal) _wrongPhase(round, state, Phase.Seal);
        if (state.drawn() < quorum) revert QuorumMissed(round, state.drawn(), quorum);
    }

    /// @dev keccak256(abi.encode("order", chainid, this, round, randomness of the order's block)). The randomness is the
    /// block's hash or, where the federation runs on a chain with RANDAO, the mix in its header: whoever makes a block
    /// can try many hashes, but of the mix it can only withhold its own contribution.
    function _orderSeed(uint64 round, RoundState state, bytes calldata header) private view returns (bytes32) {
        uint256 orderBlock = state.openedAt() + _orderBlock(state);
        if (block.number <= orderBlock) revert OrderBlockNotPast(round, orderBlock);
        bytes32 randomness = _blockHash(round, orderBlock);
        if (randao) {
            if (keccak256(header) != randomness) revert WrongHeader(round, orderBlock);
            randomness = BlockHeader.mixOf(header);
        }
        return keccak256(abi.encode("order", block.chainid, address(this), round, randomness));
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
        progress.last = frontier.last;
        for (uint256 level = 0; level < 17; ++level) {
            if ((frontier.count >> level) & 1 == 1) progress.peaks[level] = frontier.peaks[level];
        }
    }
    // slither-disable-end shadowing-local
}
