// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CooperationTree} from "../../../contracts/CooperationTree.sol";
import {IClientRegistry} from "../../../contracts/interfaces/IClientRegistry.sol";
import {Settings, Terms} from "../../../contracts/interfaces/ITrainingLedger.sol";
import {RoundState} from "../../../contracts/ledger/RoundState.sol";
import {TrainingLedger} from "../../../contracts/TrainingLedger.sol";

/// @notice A ledger that takes draws without proofs, for tests with more clients than a test can prove for.
contract SeededLedger is TrainingLedger {
    constructor(IClientRegistry registry_, address coordinator_, Settings memory settings_, Terms memory terms_)
        TrainingLedger(registry_, coordinator_, settings_, terms_)
    {}

    function place(uint64 round, uint128[] calldata tickets) external {
        RoundState state = _round(round).state;
        for (uint256 i = 0; i < tickets.length; ++i) {
            address account = address(uint160(uint32(tickets[i])));
            accounts[uint32(tickets[i])] = account;
            Client storage client = _client(account);
            client.state = client.state.withDraw(round, tickets[i], false);
            state = state.withDraw(CooperationTree.chain(state.chainLink(), tickets[i]));
        }
        _round(round).state = state;
    }
}
