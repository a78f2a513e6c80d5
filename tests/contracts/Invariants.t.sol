// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FailureReason, Phase, Rate, RoundView, Settings, Terms} from "../../contracts/interfaces/ITrainingLedger.sol";
import {Federation, Member} from "./harness/Federation.sol";
import {vm} from "./harness/Vm.sol";

/// @notice Does anything at any time, as anybody. Records what was accepted; checks at once that its phase was the
/// right one.
contract Handler is Federation {
    uint64 public lastRound;
    mapping(uint64 round => uint256) public rank;
    mapping(uint64 round => uint256) public draws;
    mapping(uint64 round => bytes32) public ended;
    mapping(uint64 round => Phase) public endedAs;
    mapping(uint64 round => mapping(address => bool)) public drew;
    mapping(uint64 round => mapping(address => bool)) public committed;
    mapping(uint64 round => bool) public isReported;
    mapping(uint64 round => mapping(address => bool)) public disputed;
    mapping(uint64 round => uint256) public disputes;
    /// @dev Rounds that the disputes so far make void.
    mapping(uint64 round => bool) public isVoid;
    /// @dev The round whose closing stands, as {lastClosed} should say.
    uint64 public standing;
    mapping(uint64 round => bytes32) public expectedRoot;

    /// @dev Rounds that closed and are not void.
    uint256 public closed;
    uint32 public constant ROUNDS = 8;
    uint32 public constant REPEATS = 12;

    constructor() {
        _deploy(true);
        _join(4);
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

    function open(uint8 who, bool wrongModel) external {
        bytes32 model = wrongModel ? MODEL : ledger.currentModel();
        Phase before = ledger.phase(lastRound);
        _as(_actor(who));
        try ledger.open(model, _nobody()) returns (uint64 round) {
            require(lastRound == 0 || _isEnded(before), "opened while a round runs");
            require(round == lastRound + 1, "rounds are not consecutive");
            require(closed < ROUNDS && round <= ROUNDS + REPEATS, "opened after the federation's end");
            require(model == ledger.currentModel(), "opened on another model");
            bool some = round >= 4 && round < 7;
            RoundView memory view_ = ledger.round(round);
            require(view_.modelDigest == model, "another model");
            require(view_.samplingRate == (some ? 600_000 : EVERYONE), "another rate");
            lastRound = round;
            delete tickets;
        } catch {}
        _observe();
    }

    function draw(uint8 who) external {
        Phase before = ledger.phase(lastRound);
        Member memory member = members[who % 4];
        bytes memory message;
        bytes32 beta;
        if (before == Phase.Draw) {
            uint64 seedBlock = ledger.round(lastRound).seedBlock;
            vm.setBlockhash(seedBlock, keccak256(abi.encode("block", lastRound)));
            (message, beta) = _proof(member, lastRound);
        }
        _as(member.account);
        try ledger.draw(lastRound, member.vrfX, member.vrfY, MASK_KEY, SEAL_KEY, 1, message) {
            require(before == Phase.Draw, "drawn outside the window");
            draws[lastRound] += 1;
            drew[lastRound][member.account] = true;
            tickets.push(_ticket(beta, registry.clientOf(member.account).client));
        } catch {}
        _observe();
    }

    function seal(bool chunked) external {
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
            require(before == Phase.Seal && !early, "sealed outside the window");
            expectedRoot[lastRound] = _naiveRoot(sorted);
        }
        _observe();
    }

    /// @dev What the round needs next, done as it should be; chance alone would hardly ever bring a round to its end.
    function carryOn(uint8 who) external {
        Phase phase = ledger.phase(lastRound);
        if (phase == Phase.None || _isEnded(phase)) this.open(4, false);
        else if (phase == Phase.Seeding) _moveTo(ledger.round(lastRound).seedBlock);
        else if (phase == Phase.Draw) _carryOnDraw(who);
        else if (phase == Phase.Seal) _carryOnSeal(who);
        else if (phase == Phase.Share) _everybody(0, ledger.round(lastRound).shareEnd);
        else if (phase == Phase.Commit) _everybody(1, ledger.round(lastRound).commitEnd);
        else if (phase == Phase.Recover) this.recover(4);
        else if (phase == Phase.Close) this.close(4, keccak256(abi.encode(lastRound)));
        else this.fail(5, 0);
    }

    /// @dev All that a round needs; chance alone would hardly ever close one.
    function playToTheEnd(uint8 who) external {
        // Enough for every round: three draws, the blocks of the draw window, and what follows.
        for (uint8 i = 0; i < 30; ++i) {
            this.carryOn(who % 4 + i);
            if (_isEnded(ledger.phase(lastRound))) return;
        }
    }

    /// @dev Where a client may not draw, a block passes: the lot may fall on too few.
    function _carryOnDraw(uint8 who) private {
        uint256 before = draws[lastRound];
        if (before == 3) return _moveTo(ledger.round(lastRound).drawEnd);
        this.draw(who);
        if (draws[lastRound] == before) _moveTo(uint64(vm.getBlockNumber()));
    }

    function _carryOnSeal(uint8 who) private {
        uint64 orderBlock = ledger.round(lastRound).orderBlock;
        if (draws[lastRound] < 2) this.skip();
        else if (vm.getBlockNumber() <= orderBlock) _moveTo(orderBlock);
        else this.seal(who % 2 == 0);
    }

    function _everybody(uint8 kind, uint64 lastBlock) private {
        for (uint8 i = 0; i < 4; ++i) {
            this.record(i, kind);
        }
        _moveTo(lastBlock);
    }

    function _moveTo(uint64 lastBlock) private {
        vm.roll(lastBlock + 1);
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

    function record(uint8 who, uint8 kind) external {
        Phase before = ledger.phase(lastRound);
        Phase required = kind % 3 == 0 ? Phase.Share : kind % 3 == 1 ? Phase.Commit : Phase.Recover;
        bytes32 digest = keccak256(abi.encode(who, kind));
        bytes memory data = required == Phase.Share
            ? abi.encodeCall(ledger.share, (lastRound, digest))
            : required == Phase.Commit
                ? abi.encodeCall(ledger.commit, (lastRound, digest, digest))
                : abi.encodeCall(ledger.release, (lastRound, digest));
        _as(_actor(who));
        (bool accepted,) = address(ledger).call(data);
        if (accepted) require(before == required && who % 6 < 4, "a record outside its window, or of a stranger");
        if (accepted && required == Phase.Commit) committed[lastRound][_actor(who)] = true;
        _observe();
    }

    function recover(uint8 who) external {
        Phase before = ledger.phase(lastRound);
        _as(_actor(who));
        try ledger.recover(lastRound, keccak256("recovery")) {
            require(before == Phase.Recover && who % 6 != 5, "recovered outside the window, or by a stranger");
        } catch {}
        _observe();
    }

    function close(uint8 who, bytes32 model) external {
        Phase before = ledger.phase(lastRound);
        _as(_actor(who));
        try ledger.close(lastRound, model, keccak256("metrics")) {
            require(before == Phase.Close && who % 6 != 5, "closed outside the window, or by a stranger");
            require(ledger.currentModel() == model, "another model");
            standing = lastRound;
            closed += 1;
        } catch {}
        _observe();
    }

    /// @dev Accepted exactly from those who committed in the round whose closing stands, once each.
    function dispute(uint8 who, uint8 back) public {
        uint64 round = back % 4 == 0 && lastRound > 0 ? lastRound - 1 : standing;
        address account = _actor(who);
        bytes32 before = ledger.currentModel();
        bool expected = round != 0 && round == standing && committed[round][account] && !disputed[round][account];
        _as(account);
        (bool accepted,) = address(ledger).call(abi.encodeCall(ledger.disputeRound, (round, before)));
        require(accepted == expected, "a dispute was wrongly accepted or refused");
        if (accepted) {
            disputed[round][account] = true;
            disputes[round] += 1;
            if (2 * disputes[round] > ledger.round(round).committed) _expectVoid(round);
            else require(ledger.currentModel() == before, "too few disputes changed the model");
        }
        _observe();
    }

    function disputeByAll() external {
        for (uint8 i = 0; i < 4; ++i) {
            dispute(i, 1);
        }
    }

    function _expectVoid(uint64 round) private {
        require(ledger.currentModel() == ledger.round(round).modelDigest, "another model stands again");
        isVoid[round] = true;
        closed -= 1;
        if (endedAs[lastRound] == Phase.None) isVoid[lastRound] = true;
        standing = 0;
    }

    function fail(uint8 who, uint8 reason) external {
        Phase before = ledger.phase(lastRound);
        bytes32 model = ledger.currentModel();
        _as(_actor(who));
        try ledger.fail(lastRound, FailureReason(reason % 7), 0) {
            bool early = before == Phase.Recover || before == Phase.Close;
            require(before == Phase.Overdue || (early && who % 6 != 5), "failed too early, or by a stranger");
            require(ledger.currentModel() == model, "a failed round changed the model");
        } catch {}
        _observe();
    }

    function skip() external {
        Phase before = ledger.phase(lastRound);
        _as(STRANGER);
        try ledger.skip(lastRound) {
            require(before == Phase.Seal || before == Phase.Overdue, "skipped outside the window");
            require(draws[lastRound] < 2, "skipped with a quorum");
        } catch {}
        _observe();
    }

    /// @dev Accepted exactly when all who drew in the latest ended round, which closed, and did not commit are named,
    /// and no round draws.
    function report(uint8 named, bool previous) external {
        uint64 round = previous && lastRound > 0 ? lastRound - 1 : lastRound;
        Phase current = ledger.phase(lastRound);
        uint64 latest = lastRound == 0 || _isEnded(current) ? lastRound : lastRound - 1;
        if (named > 127) named = absentees(latest); // chance alone would seldom name them
        address[] memory accounts = _ascending(named % 16);
        bool expected = round == latest && endedAs[round] == Phase.Closed && current != Phase.Seeding
            && current != Phase.Draw && named % 16 == absentees(round);
        uint256 before = expected ? _absences() : 0;
        _as(STRANGER);
        (bool accepted,) = address(ledger).call(abi.encodeCall(ledger.reportAbsences, (round, accounts)));
        require(accepted == expected, "a report was wrongly accepted or refused");
        if (!accepted) return;
        require(_absences() - before == (isReported[round] ? 0 : accounts.length), "not counted once");
        isReported[round] = true;
    }

    /// @dev By bits, who drew and did not commit.
    function absentees(uint64 round) public view returns (uint8 bits) {
        for (uint8 i = 0; i < 4; ++i) {
            address account = members[i].account;
            if (drew[round][account] && !committed[round][account]) bits |= uint8(1 << i);
        }
    }

    /// @dev The accounts of the members of these bits.
    function _ascending(uint8 bits) private view returns (address[] memory list) {
        uint256 count = 0;
        list = new address[](4);
        for (uint256 i = 0; i < 4; ++i) {
            if ((bits >> i) & 1 == 0) continue;
            uint256 slot = count++;
            for (; slot > 0 && list[slot - 1] > members[i].account; --slot) {
                list[slot] = list[slot - 1];
            }
            list[slot] = members[i].account;
        }
        assembly ("memory-safe") {
            mstore(list, count)
        }
    }

    function _absences() private view returns (uint256 sum) {
        for (uint256 i = 0; i < 4; ++i) {
            sum += registry.clientOf(members[i].account).absences;
        }
    }

    /// @dev Phases move forward only, and an ended round never changes, unless disputes make it void.
    function _observe() private {
        require(ledger.lastClosed() == standing, "another closing stands");
        require(ledger.closedRounds() == closed, "other rounds closed");
        for (uint64 round = 1; round <= lastRound; ++round) {
            RoundView memory view_ = ledger.round(round);
            Phase phase = view_.phase;
            uint256 current = _isEnded(phase) ? 200 : phase == Phase.Overdue ? 100 : uint256(phase);
            require(current >= rank[round], "a phase moved back");
            rank[round] = current;
            require((phase == Phase.Voided) == isVoid[round], "void against the disputes");
            if (current != 200) continue;
            bool becameVoid = phase == Phase.Voided && endedAs[round] == Phase.Closed;
            if (endedAs[round] == Phase.None || becameVoid) endedAs[round] = phase;
            require(endedAs[round] == phase, "an ended round ended otherwise");
            view_.phase = Phase.None;
            bytes32 digest = keccak256(abi.encode(view_));
            if (ended[round] == 0) ended[round] = digest;
            require(ended[round] == digest, "an ended round changed");
        }
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

contract InvariantsTest {
    Handler private handler;

    function setUp() public {
        handler = new Handler();
    }

    /// @dev So that the invariants are known to have seen whole rounds.
    function test_CarryingOn_BringsRoundsToTheirEnd() public {
        for (uint8 i = 0; i < 100; ++i) {
            handler.carryOn(i);
        }
        RoundView[] memory list = handler.rounds();
        require(list.length > 2 && list[1].phase == Phase.Closed && list[1].committed > 1, "no round was closed");
    }

    /// @dev So that the invariants are known to have seen void rounds.
    function test_DisputesByAll_VoidAClosedRoundAndTheOneThatRuns() public {
        handler.playToTheEnd(0);
        handler.playToTheEnd(1);
        handler.carryOn(2);
        handler.disputeByAll();
        RoundView[] memory list = handler.rounds();
        require(list.length == 3 && list[1].phase == Phase.Voided && list[2].phase == Phase.Voided, "nothing is void");
        require(list[0].phase == Phase.Closed, "an earlier round is void");
    }

    /// @dev So that the invariants are known to have seen the federation's end.
    function test_PlayingOn_BringsTheFederationToItsEnd() public {
        for (uint8 i = 0; i < 40; ++i) {
            handler.playToTheEnd(i);
        }
        uint256 repeats = handler.lastRound() - handler.closed();
        require(handler.closed() == handler.ROUNDS(), "rounds are left");
        require(repeats < handler.REPEATS(), "all repeats were needed");
    }

    function targetContracts() public view returns (address[] memory list) {
        list = new address[](1);
        list[0] = address(handler);
    }

    /// @dev One campaign for all four: with a fixed seed, campaigns of their own made the same calls, but for a few.
    function invariant_DrawsCommitmentsRoundsAndOrders_AreThoseThatWereAccepted() public view {
        _leavesAreTheAcceptedDraws();
        _theOrderRootIsThatOfTheAscendingTickets();
        _oneRoundRunsAtATime();
        _nobodyCommitsTwice();
    }

    function _leavesAreTheAcceptedDraws() private view {
        RoundView[] memory list = handler.rounds();
        for (uint64 round = 1; round <= list.length; ++round) {
            require(list[round - 1].drawn == handler.draws(round), "draws and leaves differ");
        }
    }

    function _theOrderRootIsThatOfTheAscendingTickets() private view {
        RoundView[] memory list = handler.rounds();
        for (uint64 round = 1; round <= list.length; ++round) {
            require(list[round - 1].orderRoot == handler.expectedRoot(round), "another order");
        }
    }

    function _oneRoundRunsAtATime() private view {
        RoundView[] memory list = handler.rounds();
        for (uint64 round = 1; round < list.length; ++round) {
            require(handler.rank(round) == 200, "an earlier round still runs");
        }
    }

    function _nobodyCommitsTwice() private view {
        RoundView[] memory list = handler.rounds();
        for (uint64 round = 1; round <= list.length; ++round) {
            require(list[round - 1].committed <= list[round - 1].drawn, "more commitments than draws");
        }
    }
}
