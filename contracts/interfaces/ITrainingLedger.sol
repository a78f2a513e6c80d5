// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IClientRegistry} from "./IClientRegistry.sol";

/// @notice Windows and limits of a federation, fixed at deployment. All windows are in blocks.
/// @param seedDelay blocks from the opening to the block whose hash seeds the round, at least 1
/// @param orderDelay blocks from the end of the draws to the block whose randomness orders the drawn clients, at least
/// 1
/// @param vouchWindow 0 where updates are not bounded, and then `affirmWindow` and `stages` are, too
/// @param affirmWindow 0 exactly where `vouchWindow` is
/// @param recoverWindow at least four times `coordinatorGrace`
/// @param coordinatorGrace blocks in which the coordinator may act alone before clients may act in its stead
/// @param quorum with fewer drawn clients than this a round is not sealed, at least 1
/// @param releases with fewer clients that released shares than this a round is not closed, 1 to `quorum`
/// @param stages how often the clients that released shares may release further ones, each time in a window of its own,
/// at most 32
/// @param judges with fewer clients that judge alike than this nothing follows from it, 1 to `quorum`, so that those
/// who committed in a round that closed can always have its closing fall
/// @param maxClients draws beyond this are refused, at least `quorum`
/// @param absenceLimit a client that drew in none of so many sealed rounds of all members need not be waited for, at
/// least 1
/// @param maxSamples highest sample count that a client may state, at least 1
/// @param randao the order's randomness is the RANDAO mix of its block (EIP-4399) instead of the block's hash; only for
/// chains whose validators take turns
/// @param rounds how many rounds may close, at least 1
/// @param repeats how many sealed rounds may fail; with one more the federation is over
struct Settings {
    uint16 seedDelay;
    uint16 drawWindow;
    uint16 orderDelay;
    uint16 sealWindow;
    uint16 shareWindow;
    uint16 commitWindow;
    uint16 vouchWindow;
    uint16 affirmWindow;
    uint16 recoverWindow;
    uint16 coordinatorGrace;
    uint16 quorum;
    uint16 releases;
    uint16 stages;
    uint16 judges;
    uint16 maxClients;
    uint16 absenceLimit;
    uint32 maxSamples;
    bool randao;
    uint32 rounds;
    uint32 repeats;
}

/// @notice The sampling rate of the rounds from a number on.
/// @param fromRound the first of them
/// @param perMillion clients drawn per million, 1 to 1,000,000, which draws everyone
struct Rate {
    uint40 fromRound;
    uint32 perMillion;
}

/// @notice What the members agreed on before the first round, fixed at deployment.
/// @param config digest of the federation's terms
/// @param model digest of the model that the first round trains from
/// @param rates by ascending first round; the first is that of round 1
struct Terms {
    bytes32 config;
    bytes32 model;
    Rate[] rates;
}

/// @notice Where a round stands; a function of its records and of the block number. Skipped, Failed and Voided are
/// final, and so is Closed but for judgements; Overdue says that a deadline passed and anybody may now record the round
/// as failed.
enum Phase {
    None,
    Seeding,
    Draw,
    Seal,
    Share,
    Commit,
    Vouch,
    Affirm,
    Recover,
    Closed,
    Skipped,
    Failed,
    Overdue,
    Voided
}

/// @notice One round; zero in all fields for a round that does not exist. Each `…End` is the last block of a phase: the
/// recorded one or, as long as there is none, the end of the phase before and the window. `recoverEnd` is always the
/// latter, behind the latest stage of releases.
/// @param sketchBlock block from whose hash the sketch of the updates follows; without bounds this is, as are
/// `vouchEnd` and `affirmEnd`, `commitEnd`
/// @param closeEnd the last block in which the round can be closed: `recoverEnd` or, where the clock does not end the
/// round, 2⁶⁴−1
/// @param samplingRate clients drawn per million; 1,000,000 draws everyone
/// @param seed zero until fixed
/// @param orderRoot zero until sealed
/// @param stage the latest stage in which shares were released, 0 for the first
/// @param modelDigest the global model that the round trains from
/// @param sketchHash hash of `sketchBlock`, zero until somebody vouched
struct RoundView {
    Phase phase;
    uint64 openedAt;
    uint64 seedBlock;
    uint64 drawEnd;
    uint64 orderBlock;
    uint64 sealEnd;
    uint64 shareEnd;
    uint64 commitEnd;
    uint64 sketchBlock;
    uint64 vouchEnd;
    uint64 affirmEnd;
    uint64 recoverEnd;
    uint64 closeEnd;
    uint32 samplingRate;
    uint32 drawn;
    uint32 committed;
    uint32 released;
    uint32 vouched;
    uint32 affirmed;
    uint32 stage;
    bytes32 seed;
    bytes32 orderRoot;
    bytes32 modelDigest;
    bytes32 sketchHash;
}

/// @notice A draw signed by `account` for somebody else to submit. The signature is 65 bytes r ‖ s ‖ v over the EIP-712
/// struct Draw(uint64 round,address account,uint256 vrfX,uint256 vrfY,bytes32 maskKey,bytes32 sealKey,uint32
/// samples,bytes message) in the domain (name "fedgrove", version "1", chainId, verifyingContract).
struct SignedDraw {
    address account;
    uint256 vrfX;
    uint256 vrfY;
    bytes32 maskKey;
    bytes32 sealKey;
    uint32 samples;
    bytes message;
    bytes signature;
}

/// @title The rounds of a federation
/// @notice Records who was drawn for a round, in which order they cooperate, what they shared and committed, and which
/// model came out. Digests are sha2-256 of the root block of a blob in the content store; they live in events.
///
/// A round is open → (seed fixed) draw → seal → share → commit → recover → closed; where updates are bounded, vouch and
/// affirm come before recover. Everything is accepted only in its phase. A phase ends with the block in which the last
/// of those acts who may: draw (where everyone is drawn) with the last eligible client, share with the last drawn one,
/// commit with the last that shared, vouch and affirm with the last that committed. Otherwise its window ends it; in
/// either case the next phase begins with the block after. Where everyone is drawn, the draws go on beyond their window
/// until there are as many as the quorum. One round runs at a time.
///
/// Only the clock, a count that is kept here, or more than half of the clients that committed end a round without a
/// model; the model of the round before then stands. Those clients judge: before the closing that nothing may be
/// summed, which ends the round, and until another round closes what the closing should have been. Where more than half
/// say the same, that takes the closing's place, or voids it, and a round that runs on the model that fell ends with
/// it. Whose closing fell neither opens, skips nor closes a round again.
///
/// WARNING: nothing here looks behind a digest. That an update or a model is what it should be, is for an auditor to
/// recompute, and for the clients to judge, whose majority may err or collude.
interface ITrainingLedger {
    // `round` is a number everywhere but in the view of that name.
    // slither-disable-start shadowing-local
    /// @dev The first event; the transaction that created the contract holds settings and terms.
    event LedgerFounded();
    /// @param samplingRate clients drawn per million; 1,000,000 draws everyone
    /// @param openedAt block of the opening
    /// @param seedBlock block whose hash seeds the round
    /// @param barred the accounts that were named, which may not draw in the round
    event RoundOpened(
        uint64 indexed round,
        bytes32 modelDigest,
        bytes32 configDigest,
        uint32 samplingRate,
        uint64 openedAt,
        uint64 seedBlock,
        address[] barred
    );
    event SeedFixed(uint64 indexed round, bytes32 blockHash, bytes32 seed);
    /// @param samples sample count nᵢ that the client states. NOTE: unchecked but for its bounds
    /// @param maskKey x-only secp256k1 key of this round for the masks. NOTE: not checked, it may be of no point
    /// @param sealKey X25519 key of this round for the shares. NOTE: not checked, low-order points included
    /// @param proof the 81-byte RFC 9381 proof
    event Drawn(
        uint64 indexed round,
        uint32 indexed client,
        uint32 samples,
        bytes32 maskKey,
        bytes32 sealKey,
        bytes proof
    );
    /// @param reason selector of the error with which a draw of its own would have reverted
    event DrawRejected(uint64 indexed round, address indexed account, bytes4 reason);
    /// @param orderSeed what the tickets' keys are made with, see {CooperationTree}; fixed after the last draw
    event Sealed(uint64 indexed round, uint32 drawn, bytes32 orderSeed, bytes32 orderRoot);
    /// @param placed how many tickets the transaction's sender has placed so far
    event SealChunk(uint64 indexed round, uint32 placed);
    event Skipped(uint64 indexed round, uint32 drawn);
    /// @dev The draws ended with the block of this event, as everyone has drawn who may.
    event DrawEnded(uint64 indexed round);
    /// @dev The share phase ended with the block of this event, as everyone has shared who drew.
    event ShareEnded(uint64 indexed round);
    /// @dev The commit phase ended with the block of this event, as everyone has committed who shared.
    event CommitEnded(uint64 indexed round);
    event Shared(uint64 indexed round, uint32 indexed client, bytes32 digest);
    event Committed(uint64 indexed round, uint32 indexed client, bytes32 digest, bytes32 seedHash);
    /// @param blockHash of the block from which the sketch of the updates follows
    event Vouched(uint64 indexed round, uint32 indexed client, bytes32 blockHash, bytes32 digest);
    /// @dev The vouch phase ended with the block of this event, as everyone has vouched who committed.
    event VouchEnded(uint64 indexed round);
    event Affirmed(uint64 indexed round, uint32 indexed client, bytes32 blockHash, bytes32 word);
    /// @dev The affirm phase ended with the block of this event, as everyone has affirmed who committed.
    event AffirmEnded(uint64 indexed round);
    event Revealed(uint64 indexed round, uint32 indexed client, bytes32 blockHash, bytes32 digest);
    /// @param blockHash as in {Vouched}; zero where updates are not bounded, or nobody vouched
    event Released(uint64 indexed round, uint32 indexed client, bytes32 blockHash, bytes32 digest, uint16 stage);
    event Closed(uint64 indexed round, bytes32 modelDigest, bytes32 metricsDigest);
    event Failed(uint64 indexed round);
    /// @param asked Recover for what was said before the closing, else Closed
    event Judged(
        uint64 indexed round, uint32 indexed client, Phase asked, bytes32 modelDigest, bytes32 metricsDigest
    );
    /// @dev This result takes the place of that of the closing.
    event Replaced(uint64 indexed round, bytes32 modelDigest, bytes32 metricsDigest);
    /// @param modelDigest the model that stands
    event Voided(uint64 indexed round, bytes32 modelDigest);

    // Deployment
    error ZeroCoordinator();
    error WrongRegistry(address registry, address itsLedger);
    error SettingOutOfRange(bytes32 setting, uint256 value);
    /// @dev The rates do not ascend from round 1, or one is not from 1 to 1,000,000.
    error RatesInvalid(uint256 index);

    // Rounds
    error WrongPhase(uint64 round, Phase current, Phase required);
    error WrongModel(bytes32 modelDigest, bytes32 currentModel);
    error ZeroDigest(uint64 round);
    /// @dev All rounds have closed, or more sealed ones failed than may.
    error FederationOver(uint32 closed, uint32 failed);
    error RoundEnded(uint64 round, Phase current);
    error RoundRunning(uint64 round, Phase current);
    /// @dev The account may draw in the round that is to open.
    error NotBarred(uint64 round, address account);
    error BarredNotAscending(address account);
    error DrawStillOpen(uint64 round, uint256 drawEnd);
    error QuorumReached(uint64 round, uint32 drawn, uint32 quorum);
    error QuorumMissed(uint64 round, uint32 drawn, uint32 quorum);
    /// @dev A client may skip a round of all members only where members changed since its opening, where no seed was
    /// fixed in the 256 blocks after its block, or when 2¹⁶ blocks are over.
    error MembersUnchanged(uint64 round, uint64 changedAt);
    /// @dev Too few clients committed (where updates are bounded: vouched) for a closing: fewer than the quorum, or no
    /// more than half of the drawn.
    error CommitsMissing(uint64 round, uint32 committed, uint32 drawn);
    /// @dev Too few clients have released shares for a closing.
    error ReleasesMissing(uint64 round, uint32 released, uint32 required);
    /// @dev So many have released shares that nobody can say any more that nothing may be summed.
    error ReleasesListed(uint64 round, uint32 released);
    /// @dev Before the closing only zeros are a judgement: that nothing may be summed.
    error OnlyNothing(uint64 round);
    /// @dev The only closing that can be judged is that of `standing`; none if that is 0.
    error NotJudgeable(uint64 round, uint64 standing);

    // Callers
    /// @dev Until and with block `until`, only the coordinator may act.
    error OnlyCoordinator(address caller, uint256 until);
    /// @dev A closing of the account was replaced or voided.
    error IsStruck(address account);
    error NotActiveClient(address account);
    error NotDrawn(uint64 round, address account);
    error NotShared(uint64 round, uint32 client);
    error AlreadyShared(uint64 round, uint32 client);
    error AlreadyCommitted(uint64 round, uint32 client);
    error AlreadyReleased(uint64 round, uint32 client);
    error AlreadyVouched(uint64 round, uint32 client);
    error AlreadyAffirmed(uint64 round, uint32 client);
    error RevealsUsedUp(uint64 round, uint32 client);
    error NotCommitted(uint64 round, address account);
    error AlreadyJudged(uint64 round, uint32 client);

    // Bounds
    error SketchBlockNotPast(uint64 round, uint256 sketchBlock);
    /// @dev The record was made for a sketch that is not that of this round on this chain; `known` is zero before
    /// anybody vouched.
    error WrongBlockHash(uint64 round, bytes32 known);
    /// @dev The round is closed, the caller released nothing in the first stage, the stage is not the next one, too few
    /// have released in the stage before, or there are no further stages.
    error StageNotOpen(uint64 round, uint256 stage);

    // Draws
    error SeedFixedAlready(uint64 round);
    error SeedBlockNotPast(uint64 round, uint256 seedBlock);
    /// @dev Neither the opcode nor the history contract knows the hash of the block.
    error BlockHashUnavailable(uint64 round, uint256 number);
    /// @dev The history contract and the opcode give different hashes: one of them is not the chain's.
    error BlockHashDisputed(uint64 round, uint256 number);
    error AccountNotRegistered(address account);
    error NotApproved(address account);
    error NotYetActive(address account, uint256 activeFrom, uint256 openedAt);
    /// @dev The opening says that nobody waits for the client in this round.
    error ListedAsIdle(uint64 round, uint32 client);
    /// @dev The account took back all its data.
    error HasLeft(address account);
    error KeyMismatch(address account, uint160 keyTag);
    error AlreadyDrawn(uint64 round, uint32 client);
    error RoundFull(uint64 round, uint32 maxClients);
    error SamplesOutOfRange(uint32 samples, uint32 maxSamples);
    /// @dev The VRF output is not below the threshold: the lot did not fall on this client.
    error NotSelected(uint256 beta, uint256 threshold);
    /// @dev The signature is malformed, has a high s, or is not the account's.
    error BadSignature(address account);
    /// @dev The check of one item of a batch ended without a reason, for want of gas for instance.
    error DrawNotChecked(address account);

    // Order
    error OrderBlockNotPast(uint64 round, uint256 orderBlock);
    /// @dev The header does not have the hash of the order's block.
    error WrongHeader(uint64 round, uint256 orderBlock);
    error WrongTickets(uint64 round);
    error TicketBytesInvalid(uint256 length);
    error UnknownTicket(uint64 round, uint128 ticket);

    /// @notice Opens the next round at the rate of the terms. For the coordinator; after `coordinatorGrace` blocks
    /// without a running round, for any active client, but for the first round.
    /// @param modelDigest the global model to train from, which must be {currentModel}
    /// @param barred registered accounts that may not draw in the round, ascending; where everyone is drawn, also idle
    /// ones, which then may not, see `absenceLimit`. NOTE: who leaves one out makes the draws last their window, and
    /// nothing else.
    function open(bytes32 modelDigest, address[] calldata barred) external returns (uint64 round);

    /// @notice Fixes the seed in the draw window; the first draw does it by itself.
    /// WARNING: the hash must still be at hand, from the history contract of EIP-2935 (8,191 blocks) or, where there is
    /// none, from the last 256 blocks.
    function fixSeed(uint64 round) external;

    /// @notice Draws the caller into the round.
    /// @param vrfX x coordinate of the registered VRF key
    /// @param vrfY y coordinate of the registered VRF key
    /// @param samples 1 to maxSamples
    /// @param message the proof over {alphaOf} with its hints, laid out as the ECVRF library says
    function draw(
        uint64 round,
        uint256 vrfX,
        uint256 vrfY,
        bytes32 maskKey,
        bytes32 sealKey,
        uint32 samples,
        bytes calldata message
    ) external;

    /// @notice Draws several clients by their signatures. A bad item is skipped with {DrawRejected}; only a round that
    /// is not in its draw window reverts.
    /// NOTE: who submits may leave items out or give too little gas; a client can always draw by itself.
    function drawBatch(uint64 round, SignedDraw[] calldata items) external;

    /// @notice Seals the order of all drawn clients at once, when the block after the draws that orders them is past.
    /// @param tickets uint128 each, big-endian, in the order of the draws
    /// @param permutation uint16 each, big-endian: the i-th of the order is tickets[permutation[i]]
    /// @param header the order block's header (RLP) where the order comes from RANDAO, else not read
    function seal(uint64 round, bytes calldata tickets, bytes calldata permutation, bytes calldata header) external;

    /// @notice Places the next tickets of the order, for rounds too large for {seal}; the last one seals the round.
    /// Every sender has a count of its own, so that nobody can spoil another's order by leaving a ticket out.
    /// @param tickets uint128 each, big-endian, by ascending key, above those that the sender placed before
    /// @param header as in {seal}; read with the sender's first chunk
    function sealChunk(uint64 round, bytes calldata tickets, bytes calldata header) external;

    /// @notice Ends a round that drew fewer clients than the quorum, once its draw window is over. For the coordinator;
    /// after its grace for an active client too, where everyone is drawn only if there is a reason, see
    /// {MembersUnchanged}.
    function skip(uint64 round) external;

    /// @notice Records the caller's encrypted shares; for drawn clients, once.
    function share(uint64 round, bytes32 digest) external;

    /// @notice Records the caller's masked update and the hash of its self-mask seed; for clients that shared, once.
    function commit(uint64 round, bytes32 digest, bytes32 seedHash) external;

    /// @notice Records the caller's proof that its update is bounded; for clients that committed, once, where updates
    /// are bounded and once the block of the sketch is past. The first one puts that block's hash on record.
    /// @param blockHash hash of the block of the sketch; another one reverts, here and below
    function vouch(uint64 round, bytes32 blockHash, bytes32 digest) external;

    /// @notice Records what the caller says of the members whose shares it holds; for clients that committed,
    /// once.
    /// @param word a bit for each of these members. NOTE: not read here
    function affirm(uint64 round, bytes32 blockHash, bytes32 word) external;

    /// @notice Records points that the caller shares with others; for clients that committed, at most eight times, from
    /// the end of the vouchers until the round ends.
    function reveal(uint64 round, bytes32 blockHash, bytes32 digest) external;

    /// @notice Records the shares that the caller releases for the recovery; for drawn clients, once a stage, in the
    /// window after the commits (where updates are bounded: after the affirmations). In the first stage that goes on
    /// when the round is closed meanwhile.
    /// @param blockHash of the block of the sketch; zero where updates are not bounded, or nobody vouched
    /// @param stage 0 or, for further shares of those who released in stage 0, the number of a stage: the next one
    /// begins with its first release, once `releases` clients have released in the one before. Where these are as many
    /// in stage 0, the windows of the stages end nothing before the round ends.
    function release(uint64 round, bytes32 blockHash, bytes32 digest, uint16 stage) external;

    /// @notice Ends the round with the next global model, once `releases` clients have released shares, unless too few
    /// committed, see {CommitsMissing}. For the coordinator; after its grace and some blocks by lot, for the clients
    /// that committed in the round.
    /// @param metricsDigest of what is said beside the model, which names the shares that were used. NOTE: not checked
    function close(uint64 round, bytes32 modelDigest, bytes32 metricsDigest) external;

    /// @notice Ends the round without a model: once it is overdue, or after the commits where too few committed for a
    /// closing, or after the vouchers where too few vouched.
    function fail(uint64 round) external;

    /// @notice Judges a round; for the clients that committed in it, once before its closing and once after, but that
    /// may be taken back for a result that others say. See above.
    /// @param asked Recover: that nothing may be summed, while fewer than `releases` clients have released shares or,
    /// where updates are bounded, once the window of the latest stage is over;
    /// Closed: what the closing of {lastClosed} should have been
    /// @param modelDigest zero, as is `metricsDigest`, where there should be no result
    function judge(uint64 round, Phase asked, bytes32 modelDigest, bytes32 metricsDigest) external;

    /// @notice The latest round, 0 before the first.
    function currentRound() external view returns (uint64);

    /// @notice The latest round that closed and whose model stands; 0 before the first one, and from a voiding until
    /// the next closing.
    function lastClosed() external view returns (uint64);

    /// @notice The global model that stands: before the first closing, that of the terms.
    function currentModel() external view returns (bytes32);

    /// @notice How many rounds closed and were not voided.
    function closedRounds() external view returns (uint32);

    /// @notice How many sealed rounds failed.
    function failedRounds() external view returns (uint32);

    /// @notice Whether a closing of the account was replaced or voided.
    function isStruck(address account) external view returns (bool);

    function phase(uint64 round) external view returns (Phase);

    function round(uint64 number) external view returns (RoundView memory);

    /// @notice The VRF input keccak256(abi.encode("draw", chainid, ledger, round, seed)), as soon as the seed block is
    /// past, whether or not the seed is fixed.
    function alphaOf(uint64 round) external view returns (bytes32);

    /// @notice Whether {draw} would accept, by the same code; reverts with its errors.
    /// @return ticket the client's place in the order: top 96 bits of the VRF output ‖ uint32 client
    /// @return proof the 81-byte RFC 9381 proof
    function checkDraw(
        uint64 round,
        address account,
        uint256 vrfX,
        uint256 vrfY,
        uint32 samples,
        bytes calldata message
    ) external view returns (uint128 ticket, bytes memory proof);

    /// @notice How many tickets `sealer` has placed by {sealChunk}.
    function placedSoFar(uint64 round, address sealer) external view returns (uint32);

    /// @notice The latest round whose opening listed the client as idle, 0 for none.
    function idleIn(address account) external view returns (uint64 round);

    function registry() external view returns (IClientRegistry);

    function coordinator() external view returns (address);
    // slither-disable-end shadowing-local
}
