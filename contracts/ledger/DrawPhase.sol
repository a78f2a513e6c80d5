// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ClientRecord, keyTagOf} from "../ClientRecord.sol";
import {CooperationTree} from "../CooperationTree.sol";
import {ECVRF} from "../ECVRF.sol";
import {Phase, SignedDraw} from "../interfaces/ITrainingLedger.sol";
import {ClientState, COMMITTED, MADE_MODEL} from "./ClientState.sol";
import {DrawSignature} from "./DrawSignature.sol";
import {RoundState, Status} from "./RoundState.sol";
import {RoundStore} from "./RoundStore.sol";

/// @title DrawPhase
/// @notice The seed of a round, and the draws.
abstract contract DrawPhase is RoundStore {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    function fixSeed(uint64 round) external direct {
        (Round storage entry,) = _drawing(round);
        if (entry.seed != 0) revert SeedFixedAlready(round);
        _fixSeed(round, entry);
    }

    function draw(
        uint64 round,
        uint256 vrfX,
        uint256 vrfY,
        bytes32 maskKey,
        bytes32 sealKey,
        uint32 samples,
        bytes calldata message
    ) external direct {
        (Round storage entry, RoundState state) = _drawing(round);
        bytes32 seed = entry.seed;
        if (seed == 0) seed = _fixSeed(round, entry);
        Client storage client = _client(msg.sender);
        ClientState before = client.state;
        (uint128 ticket, bytes memory proof) =
            _check(round, state, before, msg.sender, vrfX, vrfY, samples, _alpha(round, seed), message);
        bool isLast = _enter(round, entry, state, client, before, msg.sender, ticket);
        emit Drawn(round, uint32(ticket), samples, maskKey, sealKey, proof);
        if (isLast) emit DrawEnded(round);
    }

    function drawBatch(uint64 round, SignedDraw[] calldata items) external direct {
        (Round storage entry,) = _drawing(round);
        if (entry.seed == 0) _fixSeed(round, entry);
        bytes32 separator = DrawSignature.domainSeparator();
        for (uint256 i = 0; i < items.length; ++i) {
            SignedDraw calldata item = items[i];
            bytes4 reason = DrawSignature.isValid(round, item, separator)
                ? _drawSigned(round, entry, item)
                : BadSignature.selector;
            if (reason != 0) emit DrawRejected(round, item.account, reason);
        }
    }

    function checkDraw(
        uint64 round,
        address account,
        uint256 vrfX,
        uint256 vrfY,
        uint32 samples,
        bytes calldata message
    ) external view returns (uint128 ticket, bytes memory proof) {
        (, RoundState state) = _drawing(round);
        ClientState client = _client(account).state;
        return _check(round, state, client, account, vrfX, vrfY, samples, alphaOf(round), message);
    }

    function alphaOf(uint64 round) public view returns (bytes32) {
        Round storage entry = _round(round);
        bytes32 seed = entry.seed;
        if (seed == 0) (seed,) = _seed(round, entry.state);
        return _alpha(round, seed);
    }

    /// @dev At how many draws everybody has drawn who may in `round`, which opens now; 0 where the draw window ends the
    /// draws, as nobody can know who is in the sample. Whoever registers later is active only later; a client that may
    /// not draw now may not later in the round.
    function _awaited(uint64 round, uint256 rate, address[] calldata barred) internal returns (uint256) {
        uint64 since = rate == EVERYONE && fullRounds >= absenceLimit ? fullRoundAt[fullRounds % absenceLimit] : 0;
        address before = address(0);
        for (uint256 i = 0; i < barred.length; ++i) {
            if (barred[i] <= before) revert BarredNotAscending(barred[i]);
            before = barred[i];
            ClientRecord member = _memberWhoMayDraw(before);
            if (ClientRecord.unwrap(member) == 0) continue;
            Client storage client = _client(before);
            if (!_isIdle(member, client.state, since)) revert NotBarred(round, before);
            client.state = client.state.withIdle(round);
        }
        if (rate != EVERYONE) return 0;
        uint256 eligible = registry.clientCount() - barred.length;
        return eligible < maxClients ? eligible : maxClients;
    }

    /// @dev What the registry has of a registered account that may draw in a round that opens now, else zero.
    function _memberWhoMayDraw(address account) private view returns (ClientRecord member) {
        // In a loop, as the list is short; the registry is trusted since the deployment.
        // slither-disable-next-line calls-loop
        member = registry.packedClientOf(account);
        if (member.client() == 0) revert AccountNotRegistered(account);
        // slither-disable-next-line calls-loop
        bool isApproved = member.approved() || registry.revokedAt(account) >= block.number;
        bool mayDraw = isApproved && !member.hasLeft() && member.activeFrom() <= block.number;
        return mayDraw ? member : ClientRecord.wrap(0);
    }

    /// @dev Whether a client could draw in all sealed rounds of all members from round `since` on, and drew in none.
    function _isIdle(ClientRecord member, ClientState client, uint64 since) private view returns (bool) {
        return since != 0 && client.drawRound() < since && member.activeFrom() <= _round(since).state.openedAt();
    }

    /// @dev Draws one client of a batch. Returns 0, or the selector of the error with which the check ended.
    /// The check is a call to this contract, so that its revert ends there.
    function _drawSigned(uint64 round, Round storage entry, SignedDraw calldata item) private returns (bytes4) {
        // In a loop, since a batch is checked item by item; the called contract is this one.
        // slither-disable-next-line calls-loop
        try this.checkDraw(round, item.account, item.vrfX, item.vrfY, item.samples, item.message) returns (
            uint128 ticket, bytes memory proof
        ) {
            Client storage client = _client(item.account);
            bool isLast = _enter(round, entry, entry.state, client, client.state, item.account, ticket);
            emit Drawn(round, uint32(ticket), item.samples, item.maskKey, item.sealKey, proof);
            if (isLast) emit DrawEnded(round);
            return 0;
        } catch (bytes memory reason) {
            return reason.length < 4 ? DrawNotChecked.selector : bytes4(reason);
        }
    }

    /// @dev Every condition of a draw but the phase.
    function _check(
        uint64 round,
        RoundState state,
        ClientState client,
        address account,
        uint256 vrfX,
        uint256 vrfY,
        uint32 samples,
        bytes32 alpha,
        bytes calldata message
    ) private view returns (uint128 ticket, bytes memory proof) {
        uint32 index = _checkEligible(state, account, vrfX, vrfY);
        if (client.drawRound() == round) revert AlreadyDrawn(round, index);
        if (client.idleIn() == round) revert ListedAsIdle(round, index);
        if (state.drawn() >= maxClients) revert RoundFull(round, maxClients);
        unchecked {
            // Zero wraps around to the highest number.
            if (samples - 1 >= maxSamples) revert SamplesOutOfRange(samples, maxSamples);
        }
        // In a batch, a loop; the registry is trusted since the deployment.
        // slither-disable-next-line calls-loop
        (bytes32 beta, uint128 challenge) = registry.verifyVrf(vrfX, vrfY, alpha, message);
        proof = ECVRF.proofOf(message, challenge);
        if (state.samplingRate() != EVERYONE) {
            // ⌊2²⁵⁶ / 10⁶⌋ · rate is how the threshold is defined, so that it cannot overflow.
            // slither-disable-next-line divide-before-multiply
            uint256 threshold = (type(uint256).max / EVERYONE) * state.samplingRate();
            if (uint256(beta) >= threshold) revert NotSelected(uint256(beta), threshold);
        }
        ticket = (uint128(bytes16(beta)) & ~uint128(type(uint32).max)) | index;
    }

    /// @dev Whether the registry lets `account` take part in a round, with this key.
    function _checkEligible(RoundState state, address account, uint256 vrfX, uint256 vrfY)
        private
        view
        returns (uint32)
    {
        ClientRecord member = registry.packedClientOf(account);
        if (member.client() == 0) revert AccountNotRegistered(account);
        if (member.hasLeft()) revert HasLeft(account);
        // A revocation acts from the next round on: nobody is taken out of a round that runs.
        if (!member.approved() && registry.revokedAt(account) < state.openedAt()) revert NotApproved(account);
        if (member.activeFrom() > state.openedAt()) {
            revert NotYetActive(account, member.activeFrom(), state.openedAt());
        }
        if (keyTagOf(vrfX, vrfY) != member.keyTag()) revert KeyMismatch(account, member.keyTag());
        return member.client();
    }

    /// @dev Records a draw that was checked. Returns whether nobody is left to draw.
    function _enter(
        uint64 round,
        Round storage entry,
        RoundState state,
        Client storage client,
        ClientState before,
        address account,
        uint128 ticket
    ) private returns (bool isLast) {
        if (before.client() == 0) accounts[uint32(ticket)] = account;
        client.state = before.withDraw(round, ticket, _madeModel(round, state, before));
        RoundState next = state.withDraw(CooperationTree.chain(state.chainLink(), ticket));
        isLast = next.drawn() == next.awaited() || (_isLate(state) && next.drawn() >= quorum);
        entry.state = isLast ? next.withDrawEnd(block.number) : next;
    }

    /// @dev Whether the client, whose state before its draw this is, committed in the round from whose model `round`
    /// trains. Storage is asked only where the states do not say which one that was.
    function _madeModel(uint64 round, RoundState state, ClientState before) private view returns (bool) {
        uint64 previous;
        unchecked {
            previous = round - 1; // rounds count from 1
        }
        if (state.followsClosed()) return before.isAt(previous, COMMITTED, COMMITTED);
        return before.isAt(previous, 0, 0) ? before.has(MADE_MODEL) : before.madeModelOf(lastClosed);
    }

    /// @dev Whether the draw window is over, so that the draws go on only until there are enough.
    function _isLate(RoundState state) private view returns (bool) {
        return block.number - state.openedAt() > _drawWindowEnd();
    }

    /// @dev The round, which must be in its draw phase, and its state.
    function _drawing(uint64 round) private view returns (Round storage entry, RoundState state) {
        entry = _round(round);
        state = entry.state;
        if (!_isBetween(state, Status.Open, seedDelay, _drawEnd(state))) _wrongPhase(round, state, Phase.Draw);
    }

    function _fixSeed(uint64 round, Round storage entry) private returns (bytes32 seed) {
        bytes32 blockHash;
        (seed, blockHash) = _seed(round, entry.state);
        entry.seed = seed;
        emit SeedFixed(round, blockHash, seed);
    }

    /// @dev keccak256(abi.encode(blockhash(seedBlock), order root of the last sealed round))
    function _seed(uint64 round, RoundState state) private view returns (bytes32 seed, bytes32 blockHash) {
        uint256 seedBlock = state.openedAt() + seedDelay;
        if (state.status() == Status.None || block.number <= seedBlock) revert SeedBlockNotPast(round, seedBlock);
        blockHash = _blockHash(round, seedBlock);
        seed = keccak256(abi.encode(blockHash, _round(lastSealed).orderRoot));
    }

    /// @dev keccak256(abi.encode("draw", block.chainid, address(this), round, seed))
    function _alpha(uint64 round, bytes32 seed) private view returns (bytes32 alpha) {
        assembly ("memory-safe") {
            let buffer := mload(0x40)
            mstore(buffer, 0xa0) // where the string lies
            mstore(add(buffer, 0x20), chainid())
            mstore(add(buffer, 0x40), address())
            mstore(add(buffer, 0x60), round)
            mstore(add(buffer, 0x80), seed)
            mstore(add(buffer, 0xa0), 4)
            mstore(add(buffer, 0xc0), "draw")
            alpha := keccak256(buffer, 0xe0)
        }
    }
    // slither-disable-end shadowing-local
}
