// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ClientView, Membership} from "../../contracts/interfaces/IClientRegistry.sol";
import {Phase, Rate, RoundView, Settings, Terms} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Does anything at any time, as anybody. Keeps a model of the federation of its own, by which it says of each
/// transaction whether it should be accepted, and what should follow.
contract Handler is Federation {
    uint64 public lastRound;
    mapping(uint64 round => uint256) public rank;
    mapping(uint64 round => uint256) public draws;
    mapping(uint64 round => bytes32) public ended;
    mapping(uint64 round => Phase) public endedAs;
    mapping(uint64 round => uint256) private _endedIn;
    mapping(uint64 round => bytes32) public expectedRoot;
    /// @dev The latest round in which the account drew, and in which it committed and released.
    mapping(address => uint64) public latestDraw;
    mapping(uint64 round => mapping(address => bool)) public committed;
    mapping(uint64 round => mapping(address => bool)) private _hasReleased;
    mapping(uint64 round => uint256) public commitments;
    mapping(uint64 round => uint256) public releases;
    /// @dev Of a round with bounds: who left which record once, or released in which stage, and how many did.
    mapping(uint64 round => mapping(uint256 kind => mapping(address => uint256))) private _done;
    mapping(uint64 round => mapping(uint256 kind => uint256)) public counts;
    mapping(uint64 round => uint256) private _stage;
    mapping(uint64 round => uint256) private _stageAt;
    mapping(uint64 round => mapping(address => uint64)) private _idleIn;
    uint64[] private _fullRounds;

    mapping(uint64 round => mapping(Phase asked => mapping(address => bytes32 pair))) private _said;
    mapping(uint64 round => mapping(Phase asked => mapping(bytes32 pair => uint256))) private _judgements;
    mapping(uint64 round => bool) public isVoid;
    /// @dev The round whose closing stands, who closed it, and the pair and the model that stand.
    uint64 public standing;
    address private _closer;
    bytes32 private _pair;
    bytes32 public model;
    mapping(address => bool) public struck;
    uint256 public strikes;
    uint256 public replacements;
    uint256 public listings;

    /// @dev Rounds that closed and are not void, and sealed ones that failed.
    uint256 public closed;
    uint256 public failed;
    uint64 public changedAt;
    uint32 public constant ROUNDS = 8;
    uint32 public constant REPEATS = 4;

    /// @dev Kinds of records where updates are bounded; those of the stages follow.
    uint256 public constant VOUCHERS = 0;
    uint256 public constant AFFIRMATIONS = 1;
    uint256 public constant REVEALS = 2;
    uint256 private constant STAGES = 2;
    bool private immutable bounded;

    constructor(bool isBounded) {
        bounded = isBounded;
        vm.roll(100);
        Settings memory s = _settings();
        if (isBounded) (s.vouchWindow, s.affirmWindow, s.stages) = (8, 9, uint16(STAGES));
        _redeploy(Membership.Approved, s, _terms());
        changedAt = uint64(vm.getBlockNumber());
        _join(4);
        model = MODEL;
    }

    function _settings() internal pure override returns (Settings memory s) {
        s = super._settings();
        (s.rounds, s.repeats) = (ROUNDS, REPEATS);
    }

    function _terms() internal pure override returns (Terms memory terms) {
        terms = super._terms();
        terms.rates = new Rate[](3);
        (terms.rates[0], terms.rates[1], terms.rates[2]) =
            (Rate(1, EVERYONE), Rate(4, 600_000), Rate(7, EVERYONE));
    }

    function passBlocks(uint8 blocks) external {
        vm.roll(vm.getBlockNumber() + 1 + blocks % 8);
        _observe();
    }

    // --- membership ---

    /// @dev What a member, or the admin, does to a membership; one stays as it is.
    function changeMember(uint8 who, uint8 what) external {
        address account = members[1 + who % 3].account;
        ClientView memory before = registry.clientOf(account);
        bool isAccepted;
        if (what % 4 == 0) {
            _as(account);
            (isAccepted,) = address(registry).call(abi.encodeCall(registry.resume, ()));
        } else if (what % 4 == 1) {
            _as(who % 6 == 5 ? STRANGER : ADMIN);
            (isAccepted,) = address(registry).call(abi.encodeCall(registry.revoke, (account)));
            require(isAccepted == (who % 6 != 5), "a revocation was wrongly accepted or refused");
        } else {
            _approve(account);
        }
        ClientView memory after_ = registry.clientOf(account);
        bool changes = before.approved != after_.approved
            || (before.approved && before.activeFrom != after_.activeFrom);
        if (changes) changedAt = uint64(vm.getBlockNumber());
        _observe();
    }

    function _mayDraw(address account) private view returns (bool) {
        ClientView memory client = registry.clientOf(account);
        bool isApproved = client.approved || registry.revokedAt(account) >= vm.getBlockNumber();
        return client.client != 0 && isApproved && client.activeFrom <= vm.getBlockNumber();
    }

    /// @dev Whether the account may act for the coordinator, whose turn began with this block.
    function _mayAct(address account, uint256 since) private view returns (bool) {
        if (struck[account]) return false;
        if (account == COORDINATOR) return true;
        if (vm.getBlockNumber() <= since + (struck[COORDINATOR] ? 0 : 3)) return false;
        ClientView memory client = registry.clientOf(account);
        return client.client != 0 && client.approved && client.activeFrom <= vm.getBlockNumber();
    }

    // --- opening ---

    /// @dev Half of the lists are empty, as most members can seldom be listed.
    function open(uint8 who, bool wrongModel, uint8 list) public {
        uint64 round = lastRound + 1;
        bytes32 given = wrongModel ? keccak256("wrong") : model;
        uint256 bits = list > 127 ? list & 15 : 0;
        bool expected = lastRound == 0
            ? _actor(who) == COORDINATOR
            : endedAs[lastRound] != Phase.None && _mayAct(_actor(who), _endedIn[lastRound]);
        expected = expected && closed < ROUNDS && failed <= REPEATS && !wrongModel && _isBarrable(bits, _isFull(round));
        for (uint256 i = 0; i < 4; ++i) {
            if (expected && (bits >> i) & 1 == 1 && _mayDraw(members[i].account)) _list(round, members[i].account);
        }
        _as(_actor(who));
        (bool isAccepted,) = address(ledger).call(abi.encodeCall(ledger.open, (given, _accounts(bits))));
        require(isAccepted == expected, "an opening was wrongly accepted or refused");
        if (isAccepted) {
            RoundView memory view_ = ledger.round(round);
            require(view_.modelDigest == model, "another model");
            require(view_.samplingRate == (_isFull(round) ? EVERYONE : 600_000), "another rate");
            lastRound = round;
            delete tickets;
        }
        _observe();
    }

    function _isFull(uint64 round) private pure returns (bool) {
        return round < 4 || round >= 7;
    }

    /// @dev Who may not draw, and where everyone is drawn who has been away from the last two of such rounds.
    function _isBarrable(uint256 bits, bool isFull) private view returns (bool) {
        uint256 count = _fullRounds.length;
        uint64 since = isFull && count >= 2 ? _fullRounds[count - 2] : 0;
        for (uint256 i = 0; i < 4; ++i) {
            address account = members[i].account;
            if ((bits >> i) & 1 == 0 || !_mayDraw(account)) continue;
            bool wasThere = since == 0 || latestDraw[account] >= since
                || registry.clientOf(account).activeFrom > ledger.round(since).openedAt;
            if (wasThere) return false;
        }
        return true;
    }

    function _list(uint64 round, address account) private {
        _idleIn[round][account] = round;
        listings += 1;
    }

    function draw(uint8 who) public {
        Phase before = ledger.phase(lastRound);
        Member memory member = members[who % 4];
        bytes memory message;
        bytes32 beta;
        uint64 seedBlock = ledger.round(lastRound).seedBlock;
        if (before == Phase.Draw && !_isSeedLost()) {
            if (vm.getBlockNumber() - seedBlock <= 256) {
                vm.setBlockhash(seedBlock, keccak256(abi.encode("block", lastRound)));
            }
            (message, beta) = _proof(member, lastRound);
        }
        _as(member.account);
        try ledger.draw(lastRound, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 1, message) {
            require(before == Phase.Draw, "drawn outside the window");
            require(latestDraw[member.account] != lastRound, "drawn twice");
            require(_idleIn[lastRound][member.account] == 0, "drawn though listed as idle");
            uint64 windowEnd = _windowEnd(lastRound);
            bool isLate = vm.getBlockNumber() > windowEnd;
            require(!isLate || (_isFull(lastRound) && draws[lastRound] < 2), "drawn too late");
            draws[lastRound] += 1;
            latestDraw[member.account] = lastRound;
            tickets.push(_ticket(beta, registry.clientOf(member.account).client));
            bool endsNow = ledger.round(lastRound).drawEnd == vm.getBlockNumber();
            require(!isLate || endsNow == (draws[lastRound] >= 2), "the late draws end with the quorum");
        } catch {}
        _observe();
    }

    function _isSeedLost() private view returns (bool) {
        RoundView memory view_ = ledger.round(lastRound);
        return view_.seed == 0 && vm.getBlockNumber() - view_.seedBlock > 256;
    }

    function seal(bool chunked) public {
        Phase before = ledger.phase(lastRound);
        uint64 orderBlock = ledger.round(lastRound).orderBlock;
        bool early = vm.getBlockNumber() <= orderBlock;
        if (!early && vm.getBlockNumber() - orderBlock <= 256) vm.setBlockhash(orderBlock, _orderHash(lastRound));
        bytes32 seed = _orderSeed(lastRound);
        (bytes memory given, bytes memory permutation) = _order(tickets, seed);
        uint128[] memory sorted = _sorted(tickets, seed);
        bytes memory ascending;
        for (uint256 i = 0; i < sorted.length; ++i) {
            ascending = abi.encodePacked(ascending, sorted[i]);
        }
        bytes memory data = chunked
            ? abi.encodeCall(ledger.sealChunk, (lastRound, ascending, ""))
            : abi.encodeCall(ledger.seal, (lastRound, given, permutation, ""));
        _as(STRANGER);
        (bool accepted,) = address(ledger).call(data);
        if (accepted) {
            require(before == Phase.Seal && !early && draws[lastRound] >= 2, "sealed outside the window");
            expectedRoot[lastRound] = _naiveRoot(sorted);
            if (_isFull(lastRound)) _fullRounds.push(lastRound);
        }
        _observe();
    }

    function sealShuffled(uint256 a, uint256 b) external {
        vm.assume(tickets.length > 1);
        (bytes memory given, bytes memory permutation) = _order(tickets, _orderSeed(lastRound));
        a %= tickets.length;
        b %= tickets.length;
        if (a == b) return;
        (permutation[2 * a + 1], permutation[2 * b + 1]) = (permutation[2 * b + 1], permutation[2 * a + 1]);
        uint64 orderBlock = ledger.round(lastRound).orderBlock;
        if (vm.getBlockNumber() > orderBlock && vm.getBlockNumber() - orderBlock <= 256) {
            vm.setBlockhash(orderBlock, _orderHash(lastRound));
        }
        _as(STRANGER);
        try ledger.seal(lastRound, given, permutation, "") {
            revert("an order that does not ascend was sealed");
        } catch {}
    }

    // --- records ---

    /// @dev A share, a commitment or, for two rounds, a release in the first stage.
    function record(uint8 who, uint8 kind) public {
        uint64 round = kind % 4 == 3 ? standing : lastRound;
        Phase before = ledger.phase(round);
        Phase required = kind % 4 == 0 ? Phase.Share : kind % 4 == 1 ? Phase.Commit : Phase.Recover;
        address account = _actor(who);
        bytes32 digest = keccak256(abi.encode(who, kind));
        bytes memory data = required == Phase.Share
            ? abi.encodeCall(ledger.share, (round, digest))
            : required == Phase.Commit
                ? abi.encodeCall(ledger.commit, (round, digest, digest))
                : abi.encodeCall(ledger.release, (round, ledger.round(round).sketchHash, digest, 0));
        bool isDrawn = round != 0 && latestDraw[account] == round;
        bool expected = required == Phase.Recover && isDrawn && !_hasReleased[round][account]
            && (before == Phase.Recover
                || (before == Phase.Closed && vm.getBlockNumber() <= ledger.round(round).recoverEnd));
        _as(account);
        (bool accepted,) = address(ledger).call(data);
        if (required == Phase.Recover) require(accepted == expected, "a release was wrongly accepted or refused");
        if (accepted) require(isDrawn && (before == required || expected), "a record outside its window");
        if (accepted && required == Phase.Commit) {
            require(!committed[round][account], "committed twice");
            committed[round][account] = true;
            commitments[round] += 1;
        }
        if (accepted && required == Phase.Recover) {
            _hasReleased[round][account] = true;
            releases[round] += 1;
        }
        _observe();
    }

    function _isHopeless(uint64 round, Phase phase) private view returns (bool) {
        uint256 left = bounded && phase != Phase.Vouch ? counts[round][VOUCHERS] : commitments[round];
        return left < 2 || 2 * left <= draws[round];
    }

    // --- bounds ---

    /// @dev A voucher, an affirmation or points; `how` names another branch of the chain now and then.
    function vouchFor(uint8 who, uint8 what, uint8 how) public {
        uint256 kind = what % 3;
        RoundView memory view_ = ledger.round(lastRound);
        address account = _actor(who);
        bool isThere = vm.getBlockNumber() > view_.sketchBlock && vm.getBlockNumber() - view_.sketchBlock <= 256;
        if (isThere) vm.setBlockhash(view_.sketchBlock, _sketchHashOf(lastRound));
        bytes32 right = kind == VOUCHERS ? _sketchHashOf(lastRound) : view_.sketchHash;
        bytes32 blockHash = how % 8 == 7 ? keccak256("another branch") : right;
        bool isInTime = kind == VOUCHERS
            ? view_.phase == Phase.Vouch && (isThere || (view_.sketchHash != 0 && vm.getBlockNumber() > view_.sketchBlock))
            : kind == AFFIRMATIONS
                ? view_.phase == Phase.Affirm
                : view_.phase == Phase.Affirm || view_.phase == Phase.Recover || _isLateAfterCommits(view_);
        bool expected = bounded && isInTime && blockHash == right && committed[lastRound][account]
            && _done[lastRound][kind][account] < (kind == REVEALS ? 8 : 1);
        bytes memory data = kind == VOUCHERS
            ? abi.encodeCall(ledger.vouch, (lastRound, blockHash, DIGEST))
            : kind == AFFIRMATIONS
                ? abi.encodeCall(ledger.affirm, (lastRound, blockHash, DIGEST))
                : abi.encodeCall(ledger.reveal, (lastRound, blockHash, DIGEST));
        _as(account);
        (bool isAccepted,) = address(ledger).call(data);
        require(isAccepted == expected, "a record of bounds was wrongly accepted or refused");
        if (isAccepted) _count(lastRound, kind, account);
        _observe();
    }

    /// @dev Further shares; `what` says in which stage.
    function releaseFurther(uint8 who, uint8 what) public {
        uint256 stage = 1 + what % 4;
        RoundView memory view_ = ledger.round(lastRound);
        address account = _actor(who);
        uint256 latest = _stage[lastRound];
        uint256 listed = latest == 0 ? releases[lastRound] : counts[lastRound][REVEALS + latest];
        bool isOpen = stage <= latest || (stage == latest + 1 && stage <= STAGES && listed >= 2);
        bool expected = bounded && view_.phase == Phase.Recover && isOpen && _hasReleased[lastRound][account]
            && _done[lastRound][REVEALS + stage][account] == 0;
        _as(account);
        (bool isAccepted,) =
            address(ledger).call(abi.encodeCall(ledger.release, (lastRound, view_.sketchHash, DIGEST, uint16(stage))));
        require(isAccepted == expected, "a further release was wrongly accepted or refused");
        if (isAccepted) {
            if (stage > latest) (_stage[lastRound], _stageAt[lastRound]) = (stage, vm.getBlockNumber());
            _count(lastRound, REVEALS + stage, account);
        }
        _observe();
    }

    function _isLateAfterCommits(RoundView memory view_) private view returns (bool) {
        return view_.phase == Phase.Overdue && view_.orderRoot != 0 && vm.getBlockNumber() > view_.vouchEnd;
    }

    function _count(uint64 round, uint256 kind, address account) private {
        _done[round][kind][account] += 1;
        counts[round][kind] += 1;
    }

    function close(uint8 who, uint8 what) public {
        Phase before = ledger.phase(lastRound);
        address account = _actor(who);
        bytes32 given = what % 8 == 7 ? bytes32(0) : _modelOf(lastRound);
        bool isTurn = account == COORDINATOR
            || (committed[lastRound][account]
                && vm.getBlockNumber() >= _closerFrom(lastRound, account, struck[COORDINATOR] ? 0 : 3, 3));
        bool expected = before == Phase.Recover && releases[lastRound] >= 2 && !_isHopeless(lastRound, before) && isTurn
            && !struck[account] && given != 0;
        _as(account);
        (bool isAccepted,) = address(ledger).call(abi.encodeCall(ledger.close, (lastRound, given, METRICS)));
        require(isAccepted == expected, "a closing was wrongly accepted or refused");
        if (isAccepted) {
            standing = lastRound;
            closed += 1;
            (_closer, model, _pair) = (account, given, keccak256(abi.encode(given, METRICS)));
        }
        _observe();
    }

    // --- judgements ---

    /// @dev Accepted exactly from those who committed in the round, once for each question; `what` says which, and what
    /// the account says.
    function judge(uint8 who, uint8 what, uint8 back) public {
        bool isBefore = what % 5 == 0;
        uint64 round = back % 4 == 0 && lastRound > 0 ? lastRound - 1 : isBefore ? lastRound : standing;
        Phase asked = isBefore ? Phase.Recover : Phase.Closed;
        address account = _actor(who);
        bytes32 given = what % 5 < 2 ? bytes32(0) : what % 5 == 2 ? keccak256("right") : _modelOf(round);
        bytes32 metrics = what % 5 < 2 ? bytes32(0) : what % 5 == 4 ? DIGEST : METRICS;
        bool isAskedFor = isBefore
            ? ledger.phase(round) == Phase.Recover && (releases[round] < 2 || _isPastItsStage(round))
            : round != 0 && round == standing;
        bytes32 pair = keccak256(abi.encode(given, metrics));
        bytes32 said = _said[round][asked][account];
        bool isTakenBack = given != 0 && pair != said && _judgements[round][asked][pair] != 0;
        bool expected = isAskedFor && committed[round][account] && (said == 0 || isTakenBack);
        _as(account);
        (bool isAccepted,) = address(ledger).call(abi.encodeCall(ledger.judge, (round, asked, given, metrics)));
        require(isAccepted == expected, "a judgement was wrongly accepted or refused");
        if (isAccepted) {
            if (said != 0) --_judgements[round][asked][said];
            _said[round][asked][account] = pair;
            uint256 count = ++_judgements[round][asked][pair];
            if (count >= 2 && 2 * count > commitments[round]) _decide(round, isBefore, given, pair);
        }
        _observe();
    }

    function _isPastItsStage(uint64 round) private view returns (bool) {
        return bounded && vm.getBlockNumber() > ledger.round(round).recoverEnd;
    }

    function judgeByAll(uint8 what) external {
        for (uint8 i = 0; i < 4; ++i) {
            judge(i, what, 1);
        }
    }

    /// @dev What follows from a majority.
    function _decide(uint64 round, bool isBefore, bytes32 given, bytes32 pair) private {
        if (isBefore) {
            failed += 1;
            require(ledger.phase(round) == Phase.Failed, "a majority did not end the round");
            return;
        }
        if (pair == _pair) return;
        bool isRunning = endedAs[lastRound] == Phase.None;
        if (given != model && isRunning) isVoid[lastRound] = true;
        struck[_closer] = true;
        strikes += 1;
        if (given != 0) {
            (model, _pair) = (given, pair);
            replacements += 1;
            return;
        }
        model = ledger.round(round).modelDigest;
        isVoid[round] = true;
        closed -= 1;
        standing = 0;
    }

    // --- ends ---

    function fail(uint8 who) public {
        Phase before = ledger.phase(lastRound);
        bool isAfterCommits = before == Phase.Vouch || before == Phase.Affirm || before == Phase.Recover;
        bool expected = before == Phase.Overdue || (isAfterCommits && _isHopeless(lastRound, before));
        bool isSealed = ledger.round(lastRound).orderRoot != 0;
        _as(_actor(who));
        (bool isAccepted,) = address(ledger).call(abi.encodeCall(ledger.fail, (lastRound)));
        require(isAccepted == expected, "a failure was wrongly accepted or refused");
        if (isAccepted && isSealed) failed += 1;
        _observe();
    }

    function skip(uint8 who) public {
        uint64 windowEnd = _windowEnd(lastRound);
        bool isRunning = lastRound != 0 && endedAs[lastRound] == Phase.None;
        bool expected = isRunning && vm.getBlockNumber() > windowEnd && draws[lastRound] < 2
            && _mayAct(_actor(who), windowEnd);
        if (_actor(who) != COORDINATOR && _isFull(lastRound)) {
            uint64 openedAt = ledger.round(lastRound).openedAt;
            expected = expected
                && (changedAt >= openedAt || vm.getBlockNumber() - openedAt >= 1 << 16 || _isSeedLost());
        }
        _as(_actor(who));
        (bool isAccepted,) = address(ledger).call(abi.encodeCall(ledger.skip, (lastRound)));
        require(isAccepted == expected, "a skip was wrongly accepted or refused");
        _observe();
    }

    // --- whole rounds ---

    /// @dev What the round needs next, done as it should be; chance alone would hardly ever bring a round to its end.
    function carryOn(uint8 who) public {
        Phase phase = ledger.phase(lastRound);
        if (phase == Phase.None || _isEnded(phase)) _carryOnEnded();
        else if (phase == Phase.Seeding) _moveTo(ledger.round(lastRound).seedBlock);
        else if (phase == Phase.Draw) _carryOnDraw(who);
        else if (phase == Phase.Seal) _carryOnSeal(who);
        else if (phase == Phase.Share) _everybody(0, ledger.round(lastRound).shareEnd);
        else if (phase == Phase.Commit) _everybody(1, ledger.round(lastRound).commitEnd);
        else if (phase == Phase.Vouch) _carryOnVouch(who);
        else if (phase == Phase.Affirm) _carryOnAffirm(who);
        else if (phase == Phase.Recover) _carryOnRecover(who);
        else fail(5);
    }

    /// @dev All that a round needs.
    function playToTheEnd(uint8 who) external {
        // Enough for every round: three draws, the blocks of the draw window, and what follows.
        for (uint8 i = 0; i < 40; ++i) {
            carryOn(who % 4 + i);
            if (_isEnded(ledger.phase(lastRound))) return;
        }
    }

    function _carryOnEnded() private {
        if (struck[COORDINATOR]) _moveTo(uint64(vm.getBlockNumber()) + 4);
        for (uint8 i = 0; i < 5; ++i) {
            if (!struck[_actor(i + 4)] && i + 4 != 5) return open(i + 4, false, 0);
        }
    }

    /// @dev Where a client may not draw, a block passes: the lot may fall on too few.
    function _carryOnDraw(uint8 who) private {
        uint256 before = draws[lastRound];
        uint64 windowEnd = _windowEnd(lastRound);
        if (before == 3 && vm.getBlockNumber() <= windowEnd) return _moveTo(windowEnd);
        if (_isSeedLost()) return skip(struck[COORDINATOR] ? who : 4);
        draw(who);
        if (draws[lastRound] == before) _moveTo(uint64(vm.getBlockNumber()));
    }

    function _carryOnSeal(uint8 who) private {
        uint64 orderBlock = ledger.round(lastRound).orderBlock;
        if (draws[lastRound] < 2) {
            if (struck[COORDINATOR]) _moveTo(uint64(vm.getBlockNumber()) + 4);
            skip(struck[COORDINATOR] ? who : 4);
        } else if (vm.getBlockNumber() <= orderBlock) {
            _moveTo(orderBlock);
        } else {
            seal(who % 2 == 0);
        }
    }

    function _carryOnVouch(uint8 who) private {
        if (_isHopeless(lastRound, Phase.Vouch)) return fail(5);
        _moveTo(ledger.round(lastRound).sketchBlock);
        uint64 end = ledger.round(lastRound).vouchEnd;
        // Now and then one of them stays away.
        for (uint8 i = who % 4 == 0 ? 1 : 0; i < 4; ++i) {
            vouchFor(i, 0, 0);
        }
        if (ledger.phase(lastRound) == Phase.Vouch && vm.getBlockNumber() <= end) {
            _moveTo(ledger.round(lastRound).vouchEnd);
        }
    }

    function _carryOnAffirm(uint8 who) private {
        if (_isHopeless(lastRound, Phase.Affirm)) return fail(5);
        vouchFor(who % 4, 2, 0);
        for (uint8 i = who % 4 == 1 ? 1 : 0; i < 4; ++i) {
            vouchFor(i, 1, 0);
        }
        _moveTo(ledger.round(lastRound).affirmEnd);
    }

    /// @dev The coordinator closes, else one of those who committed; now and then a stage comes before that.
    function _carryOnRecover(uint8 who) private {
        if (_isHopeless(lastRound, Phase.Recover)) return fail(5);
        for (uint8 i = 0; i < 4 && releases[lastRound] < 2; ++i) {
            record(i, 2);
        }
        for (uint8 i = 0; i < 4 && who % 3 == 0; ++i) {
            releaseFurther(i, 0);
        }
        if (!struck[COORDINATOR]) return close(4, 0);
        if (vm.getBlockNumber() < ledger.round(lastRound).recoverEnd) _moveTo(ledger.round(lastRound).recoverEnd - 1);
        for (uint8 i = 0; i < 4 && endedAs[lastRound] == Phase.None; ++i) {
            close(i, 0);
        }
        if (endedAs[lastRound] != Phase.None) return;
        _moveTo(ledger.round(lastRound).recoverEnd);
        for (uint8 i = 0; i < 4 && bounded && endedAs[lastRound] == Phase.None; ++i) {
            judge(i, 0, 1);
        }
    }

    function _everybody(uint8 kind, uint64 lastBlock) private {
        for (uint8 i = 0; i < 4; ++i) {
            record(i, kind);
        }
        _moveTo(lastBlock);
    }

    function _moveTo(uint64 lastBlock) private {
        vm.roll(lastBlock + 1);
        _observe();
    }

    // --- what holds after every transaction ---

    /// @dev Phases move forward only, and an ended round never changes but for releases, unless judgements make it void.
    function _observe() private {
        require(ledger.lastClosed() == standing, "another closing stands");
        require(ledger.closedRounds() == closed, "other rounds closed");
        require(ledger.failedRounds() == failed, "other rounds failed");
        require(ledger.currentModel() == model, "another model");
        require(registry.changedAt() == changedAt, "members changed at another time");
        for (uint8 i = 0; i < 6; ++i) {
            require(ledger.isStruck(_actor(i)) == struck[_actor(i)], "another is struck");
        }
        uint256 count = 0;
        for (uint256 i = 0; i < 4; ++i) {
            if (registry.clientOf(members[i].account).approved) ++count;
            address account = members[i].account;
            require(_idleIn[lastRound][account] == 0 || ledger.idleIn(account) == lastRound, "not listed");
        }
        require(registry.memberCount() == count && registry.clientCount() == 4, "another count of members");
        for (uint64 round = 1; round <= lastRound; ++round) {
            RoundView memory view_ = ledger.round(round);
            Phase phase = view_.phase;
            uint256 current = _isEnded(phase) ? 200 : phase == Phase.Overdue ? 100 : uint256(phase);
            require(current >= rank[round], "a phase moved back");
            rank[round] = current;
            require((phase == Phase.Voided) == isVoid[round], "void against the judgements");
            _observeBounds(round, view_);
            if (current != 200) continue;
            bool becameVoid = phase == Phase.Voided && endedAs[round] == Phase.Closed;
            if (endedAs[round] == Phase.None || becameVoid) {
                endedAs[round] = phase;
                _endedIn[round] = vm.getBlockNumber();
            }
            require(endedAs[round] == phase, "an ended round ended otherwise");
            require(view_.orderRoot == 0 || view_.released == releases[round], "other releases");
            (view_.phase, view_.released) = (Phase.None, 0);
            bytes32 digest = keccak256(abi.encode(view_));
            if (ended[round] == 0) ended[round] = digest;
            require(ended[round] == digest, "an ended round changed");
        }
    }

    /// @dev The clock fails no round whose sum may be open; a stage has a window from its first release.
    function _observeBounds(uint64 round, RoundView memory view_) private view {
        require(view_.vouched == counts[round][VOUCHERS], "other vouchers");
        require(view_.affirmed == counts[round][AFFIRMATIONS], "other affirmations");
        require(view_.stage == _stage[round], "another stage");
        require(view_.sketchHash == (view_.vouched == 0 ? bytes32(0) : _sketchHashOf(round)), "another sketch");
        uint256 begins = view_.stage == 0 ? view_.affirmEnd : _stageAt[round];
        require(view_.recoverEnd == begins + 12, "another end of the recovery");
        if (!bounded) require(view_.affirmEnd == view_.commitEnd && view_.closeEnd == view_.recoverEnd, "bounds");
        if (bounded && releases[round] >= 2) require(view_.phase != Phase.Overdue, "a sum that may be open is overdue");
    }

    function _isEnded(Phase phase) private pure returns (bool) {
        return phase == Phase.Closed || phase == Phase.Skipped || phase == Phase.Failed || phase == Phase.Voided;
    }

    /// @dev Four members, the coordinator, a stranger.
    function _actor(uint8 who) private view returns (address) {
        uint256 i = who % 6;
        return i < 4 ? members[i].account : i == 4 ? COORDINATOR : STRANGER;
    }

    function rounds() external view returns (RoundView[] memory list) {
        list = new RoundView[](lastRound);
        for (uint64 round = 1; round <= lastRound; ++round) {
            list[round - 1] = ledger.round(round);
        }
    }
}

abstract contract Invariants {
    Handler internal handler;

    /// @dev So that the invariants are known to have seen whole rounds.
    function test_CarryingOn_BringsRoundsToTheirEnd() public {
        for (uint8 i = 0; i < 100; ++i) {
            handler.carryOn(i);
        }
        RoundView[] memory list = handler.rounds();
        require(list.length > 2 && list[1].phase == Phase.Closed && list[1].committed > 1, "no round was closed");
    }

    /// @dev So that the invariants are known to have seen void rounds.
    function test_JudgementsByAll_VoidAClosedRoundAndTheOneThatRuns() public {
        handler.playToTheEnd(0);
        handler.playToTheEnd(1);
        handler.carryOn(2);
        handler.judgeByAll(1);
        RoundView[] memory list = handler.rounds();
        require(list.length == 3 && list[1].phase == Phase.Voided && list[2].phase == Phase.Voided, "nothing is void");
        require(list[0].phase == Phase.Closed, "an earlier round is void");
    }

    /// @dev So that the invariants are known to have seen closings replaced, one after the other.
    function test_JudgementsByAll_ReplaceClosings_UntilNobodyMayClose() public {
        for (uint8 i = 0; i < 12; ++i) {
            handler.playToTheEnd(i);
            if (handler.endedAs(handler.lastRound()) == Phase.Closed) handler.judgeByAll(2);
        }
        require(handler.replacements() > 2 && handler.strikes() == handler.replacements(), "nothing was replaced");
    }

    /// @dev So that the invariants are known to have seen members listed as idle.
    function test_WhoIsAway_IsListed() public {
        for (uint8 round = 0; round < 3; ++round) {
            handler.open(4, false, round == 2 ? 128 + 8 : 0);
            for (uint8 i = 0; i < 3; ++i) {
                handler.passBlocks(2);
                handler.draw(i);
            }
            for (uint8 i = 0; i < 40 && handler.endedAs(handler.lastRound()) == Phase.None; ++i) {
                handler.carryOn(0);
            }
        }
        require(handler.listings() == 1, "nobody was listed");
    }

    /// @dev So that the invariants are known to have seen the federation's end.
    function test_PlayingOn_BringsTheFederationToItsEnd() public {
        for (uint8 i = 0; i < 40; ++i) {
            handler.playToTheEnd(i);
        }
        require(handler.closed() == handler.ROUNDS(), "rounds are left");
        require(handler.failed() <= handler.REPEATS(), "all repeats were needed");
    }

    function targetContracts() public view returns (address[] memory list) {
        list = new address[](1);
        list[0] = address(handler);
    }

    /// @dev One campaign for all four: with a fixed seed, campaigns of their own made the same calls, but for a few.
    function invariant_DrawsCommitmentsRoundsAndOrders_AreThoseThatWereAccepted() public view {
        RoundView[] memory list = handler.rounds();
        for (uint64 round = 1; round <= list.length; ++round) {
            RoundView memory view_ = list[round - 1];
            require(view_.drawn == handler.draws(round), "draws and leaves differ");
            require(view_.orderRoot == handler.expectedRoot(round), "another order");
            require(round == list.length || handler.rank(round) == 200, "an earlier round still runs");
            require(view_.committed == handler.commitments(round), "other commitments");
            require(view_.committed <= view_.drawn && view_.released <= view_.drawn, "more records than draws");
        }
    }
}

contract InvariantsTest is Invariants {
    function setUp() public {
        handler = new Handler(false);
    }
}

contract BoundedInvariantsTest is Invariants {
    function setUp() public {
        handler = new Handler(true);
    }

    /// @dev So that the invariants are known to have seen all that bounds add.
    function test_CarryingOn_BringsVouchersAffirmationsRevealsAndStages() public {
        uint256 stages = 0;
        for (uint8 i = 0; i < 30; ++i) {
            handler.playToTheEnd(i);
        }
        uint256[4] memory seen;
        RoundView[] memory list = handler.rounds();
        for (uint64 round = 1; round <= list.length; ++round) {
            for (uint256 kind = 0; kind < 4; ++kind) {
                seen[kind] += handler.counts(round, kind);
            }
            stages += list[round - 1].stage;
        }
        require(seen[0] > 2 && seen[1] > 2 && seen[2] > 2 && seen[3] > 1 && stages > 1, "something is missing");
    }
}
