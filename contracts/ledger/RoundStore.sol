// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ClientRecord} from "../ClientRecord.sol";
import {DirectCalls} from "../DirectCalls.sol";
import {IClientRegistry} from "../interfaces/IClientRegistry.sol";
import {ITrainingLedger, Phase, Rate, RoundView, Terms} from "../interfaces/ITrainingLedger.sol";
import {ClientState} from "./ClientState.sol";
import {RoundClock} from "./RoundClock.sol";
import {RoundState, Status} from "./RoundState.sol";
import {VouchState} from "./VouchState.sol";

/// @title RoundStore
/// @notice The storage of the ledger, its plain views, and who may act for the coordinator.
abstract contract RoundStore is RoundClock, DirectCalls {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    IClientRegistry public immutable registry;
    address public immutable coordinator;

    /// @dev What the members agreed on; the same in every round.
    bytes32 internal immutable config;

    uint64 public currentRound;
    /// @dev The latest round that was sealed, 0 for none; its root enters the next seed.
    uint64 internal lastSealed;
    /// @dev Index of the rate of the latest round.
    uint32 internal rateIndex;
    /// @dev How many rounds of all members were sealed.
    uint32 internal fullRounds;
    uint32 public failedRounds;
    uint64 public lastClosed;
    uint32 public closedRounds;
    /// @dev Who closed {lastClosed}.
    address internal closer;
    bytes32 public currentModel;
    /// @dev The metrics' digest of {lastClosed}.
    bytes32 internal currentMetrics;
    Rate[] private _rates;
    /// @inheritdoc ITrainingLedger
    mapping(address account => bool) public isStruck;

    /// @param state see {RoundState}
    /// @param seed zero until fixed
    /// @param orderRoot zero until sealed
    /// @param model digest of the model that the round trains from
    /// @param vouching see {VouchState}
    /// @param sketchHash hash of the block from which the sketch of the updates follows; zero until somebody vouched
    struct Round {
        RoundState state;
        bytes32 seed;
        bytes32 orderRoot;
        bytes32 model;
        VouchState vouching;
        bytes32 sketchHash;
    }

    struct Client {
        ClientState state;
    }

    /// @dev Blocks whose hash every chain has at hand.
    uint256 internal constant HASHES_KEPT = 256;
    /// @dev EIP-2935: returns the hash of the block whose number it is called with, for the last 8,191 blocks.
    address private constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;

    /// @dev Where rounds and clients lie: at these places plus the round number times eight, or plus the account. They
    /// are mappings without the hash, which a commitment could not afford; as the places are hashes and the keys have
    /// 64 and 160 bits, they meet neither each other nor a mapping.
    uint256 private constant ROUNDS = uint256(keccak256("fedgrove.TrainingLedger.rounds"));
    uint256 private constant CLIENTS = uint256(keccak256("fedgrove.TrainingLedger.clients"));

    /// @dev The latest rounds of all members that were sealed, `absenceLimit` of them, by their count modulo that.
    mapping(uint256 place => uint64 round) internal fullRoundAt;

    /// @dev Written at the first draw of a client; {sealChunk} finds a client's state by it.
    mapping(uint32 client => address) internal accounts;

    constructor(IClientRegistry registry_, address coordinator_, Terms memory terms_) {
        if (coordinator_ == address(0)) revert ZeroCoordinator();
        address itsLedger = registry_.ledger();
        if (itsLedger != address(this)) revert WrongRegistry(address(registry_), itsLedger);
        registry = registry_;
        coordinator = coordinator_;
        if (terms_.model == 0 || terms_.config == 0) revert ZeroDigest(0);
        config = terms_.config;
        currentModel = terms_.model;
        _setRates(terms_.rates);
        emit LedgerFounded();
    }

    function phase(uint64 round_) external view returns (Phase) {
        return _phaseOf(round_, _round(round_).state);
    }

    function idleIn(address account) external view returns (uint64) {
        return _client(account).state.idleIn();
    }

    function round(uint64 number) external view returns (RoundView memory view_) {
        Round storage entry = _round(number);
        RoundState state = entry.state;
        if (state.status() == Status.None) return view_;
        uint256 start = state.openedAt();
        VouchState vouching = entry.vouching;
        uint256 recoverEnd = _recoverEnd(state, vouching);
        uint256 closeEnd = _closeEnd(state, recoverEnd);
        return RoundView({
            phase: _phaseOf(number, state),
            openedAt: uint64(start),
            seedBlock: uint64(start + seedDelay),
            drawEnd: uint64(start + _drawEnd(state)),
            orderBlock: uint64(start + _orderBlock(state)),
            sealEnd: uint64(start + _sealEnd(state)),
            shareEnd: uint64(start + _shareEnd(state)),
            commitEnd: uint64(start + _commitEnd(state)),
            sketchBlock: uint64(start + _sketchBlock(state)),
            vouchEnd: uint64(start + _vouchEnd(state, vouching)),
            affirmEnd: uint64(start + _affirmEnd(state, vouching)),
            recoverEnd: uint64(start + recoverEnd),
            closeEnd: uint64(closeEnd == NEVER ? NEVER : start + closeEnd),
            samplingRate: state.samplingRate(),
            drawn: state.drawn(),
            committed: state.status() < Status.Sealed ? 0 : state.committed(),
            released: state.status() < Status.Sealed ? 0 : state.released(),
            vouched: vouching.vouched(),
            affirmed: vouching.affirmed(),
            stage: vouching.stage(),
            seed: entry.seed,
            orderRoot: entry.orderRoot,
            modelDigest: entry.model,
            sketchHash: entry.sketchHash
        });
    }

    function _round(uint64 round_) internal pure returns (Round storage entry) {
        uint256 base = ROUNDS;
        assembly ("memory-safe") {
            entry.slot := add(base, shl(3, round_))
        }
    }

    function _vouchingOf(uint64 round_) internal view override returns (VouchState) {
        return vouchWindow == 0 ? VouchState.wrap(0) : _round(round_).vouching;
    }

    /// @dev Reverts unless the record was made for the sketch of this round on this branch of the chain; zero for none.
    function _onlyOfSketch(uint64 round_, Round storage entry, bytes32 blockHash) internal view {
        bytes32 known = vouchWindow == 0 ? bytes32(0) : entry.sketchHash;
        if (blockHash != known) revert WrongBlockHash(round_, known);
    }

    function _client(address account) internal pure returns (Client storage client) {
        uint256 base = CLIENTS;
        assembly ("memory-safe") {
            client.slot := add(base, account)
        }
    }

    /// @dev The rate of the next round, whose number is above that of all before.
    function _nextRate(uint64 round_) internal returns (uint32) {
        uint32 index = rateIndex;
        uint256 count = _rates.length;
        while (index + 1 < count && _rates[index + 1].fromRound <= round_) {
            ++index;
        }
        rateIndex = index;
        return _rates[index].perMillion;
    }

    /// @dev The hash of a past block. The opcode knows the last 256; the history contract (EIP-2935) more, and is asked
    /// beside it, since the genesis of a private chain may have put anything at its address.
    function _blockHash(uint64 round_, uint256 number) internal view returns (bytes32 found) {
        found = blockhash(number);
        bytes32 historic = _historicHash(number);
        if (found == 0) found = historic;
        if (found == 0) revert BlockHashUnavailable(round_, number);
        if (historic != 0 && historic != found) revert BlockHashDisputed(round_, number);
    }

    /// @dev Zero where the history contract does not know the block, or is not there.
    function _historicHash(uint256 number) private view returns (bytes32) {
        (bool found, bytes memory answer) = HISTORY.staticcall(abi.encode(number));
        return found && answer.length == 32 ? bytes32(answer) : bytes32(0);
    }

    function _setRates(Rate[] memory given) private {
        if (given.length == 0) revert RatesInvalid(0);
        for (uint256 i = 0; i < given.length; ++i) {
            uint256 least = i == 0 ? 1 : uint256(given[i - 1].fromRound) + 1;
            bool early = i == 0 ? given[i].fromRound != 1 : given[i].fromRound < least;
            if (early || given[i].perMillion == 0 || given[i].perMillion > EVERYONE) revert RatesInvalid(i);
            _rates.push(given[i]);
        }
    }

    /// @dev Reverts unless the caller is the coordinator or, once its grace after `since` and `more` blocks are over,
    /// somebody else. Nobody may whose closing was replaced or voided; where that is the coordinator, its grace is
    /// short.
    function _onlyCoordinator(uint256 since, uint256 more) internal view {
        if (isStruck[msg.sender]) revert IsStruck(msg.sender);
        if (msg.sender == coordinator) return;
        uint256 until = since + more + (isStruck[coordinator] ? coordinatorGrace / 4 : coordinatorGrace);
        if (block.number <= until) revert OnlyCoordinator(msg.sender, until);
    }

    /// @dev The same; of the others only an active client.
    function _onlyCoordinatorOrMember(uint256 since) internal view {
        _onlyCoordinator(since, 0);
        if (msg.sender == coordinator) return;
        ClientRecord member = registry.packedClientOf(msg.sender);
        if (member.client() == 0 || !member.approved() || member.hasLeft() || member.activeFrom() > block.number) {
            revert NotActiveClient(msg.sender);
        }
    }
    // slither-disable-end shadowing-local
}
