"""Mistakes on the command line: each gets one sentence, with these words where some are given, and exit code 2."""

SHORT = {
    "AWAY": "--rpc http://127.0.0.1:1 --ledger 0x000000000000000000000000000000000000dEaD --store disk:empty",
    "DEAD": "0x000000000000000000000000000000000000dEaD",
    "GEYER": "--clients 1000 --rate 0.22 --rounds 54",
    "SMALL": "simulate --scenario small.toml --executor inline",
    "TASK": "simulate --task points --data points.csv --clients 3 --rounds 2 --executor inline",
    "LONG": 300 * "x",
}
"""What words in capitals stand for; RUN is a run's directory."""

MISTAKES = """
nonsense
demo --clients 2
demo --clients many
demo --clients 99999999
demo --rounds 0
demo --alpha 0
demo --alpha nan
demo --drop 1
demo --drop -0.1
demo --drop nan
demo --clients 4 --drop 0.25
demo --seed -1
demo --strategy best
demo --masking none
demo --dataset imagenet
demo --dataset text.npz
demo --dataset no.such.module:data
demo --dataset tiny.npz
demo --dataset few.npz --strategy fedavg
demo --chain mainnet
demo --chain http://127.0.0.1:1
demo --store floppy
demo --store http://127.0.0.1:1
demo --out text.json
demo --unknown
demo --resume
demo --out empty --resume
demo --out text.json --resume
demo --out LONG
demo --out text.json/run
demo --out loop
demo --held-out 2
demo --held-out nan
demo --held-out 0.2 --epsilon 8
demo --patience 3 --rounds 1 --strategy fedavg --clients 3
demo --epsilon -1
demo --epsilon inf
demo --method magic
demo --method procfl, --clients 3
demo --task task
demo --task nowhere --data ok.npz
demo --task task --data ok.npz --dataset digits
demo --task task --data ok.npz --alpha 1
demo --task task --data ok.npz --data-dir empty
demo --base x=y
demo --workers -1
demo --dataset object.npz
demo --dataset os:nowhere
demo --dataset pipe
audit
audit nowhere
audit nowhere.car
audit empty
audit empty --rpc http://127.0.0.1:1
audit --rpc http://127.0.0.1:1 --ledger 0x000000000000000000000000000000000000dEaD --store disk:empty
audit --rpc http://127.0.0.1:1 --ledger 0x000000000000000000000000000000000000dEaD --store disk:nowhere
audit verify nowhere.car
audit export empty out.car
audit export nowhere out.car
audit pipe
audit --config broken.toml
audit verify
audit verify empty
audit verify pipe
audit verify loop
audit export empty
audit --rpc ftp://x --ledger 0x000000000000000000000000000000000000dEaD --store disk:empty
keys new alice.json
keys show nowhere.json
keys show text.json
keys backup nowhere.json backup.json
keys backup alice.json alice.json
keys restore nowhere.json new.json
keys restore text.json new.json
keys new empty/none/alice.json
keys new LONG.json
keys new empty
keys show empty
keys show pipe
keys show list.json
keys show nothing
keys show loop
keys rotate alice.json
keys rotate nowhere.json --config reached.toml
keys attest --config federation.toml --keystore alice.json
keys new other.json --password-file nowhere
keys new other.json --password-file empty
keys new other.json --password-file nothing
deploy --config nowhere.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config broken.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config unknown.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config federation.toml --keystore nowhere.json --rpc http://127.0.0.1:1
deploy --config federation.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config federation.toml --keystore alice.json --rpc floppy
deploy --config reached.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config federation.toml --keystore alice.json --rpc http://127.0.0.1:1 --coordinator me
deploy --config latin.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config deep.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config empty.toml --keystore alice.json --rpc http://127.0.0.1:1
deploy --config empty --keystore alice.json --rpc http://127.0.0.1:1
deploy --config pipe --keystore alice.json --rpc http://127.0.0.1:1
deploy --config federation.toml --keystore empty --rpc http://127.0.0.1:1
register --config federation.toml --keystore alice.json
register --config reached.toml --keystore alice.json
register --config empty --keystore alice.json
status --config federation.toml
status --config reached.toml
status --config latin.toml
status --config reached.toml --keystore text.json
bench
bench nonsense
bench masking --parameters 1
bench ipfs --mib 0
history export empty --csv tables
history export garbage --csv text.json
model save nowhere m.safetensors
model save garbage m.safetensors
model save garbage m.safetensors --round -1
approve me --config reached.toml --keystore alice.json
client --config reached.toml --keystore alice.json --data nowhere.npz
client --config reached.toml --keystore alice.json --data ok.npz --metrics-port 70000
coordinator --config broken.toml --keystore alice.json
coordinator --config reached.toml --keystore alice.json --members -1
task new text.json
task new fresh --table nowhere.csv
task new fresh --images empty
task check task --config nowhere.toml
task check task --config broken.toml
task pack nowhere
task pack empty
task base nowhere
task base text.safetensors
task base empty
task show nowhere
task show bafybad --store disk:empty
task approve nowhere
task fetch nowhere
task fetch bafybad out --store disk:empty
network status --dir nowhere
network status --dir text.json
network up --dir text.json
network up --dir garbage
network up --clients 2 --dir net
network up --drop 2 --dir net
explorer nowhere
explorer nowhere.toml
explorer broken.toml
explorer --rpc http://127.0.0.1:1
explorer garbage --port 70000
simulate --plan broken.toml
simulate --plan latin.toml
simulate --plan deep.toml
simulate --plan empty
simulate --plan pipe
simulate --clients many
simulate --set training.epochs=abc
experiment nonsense
experiment rounds_to_90 --seeds x
experiment rounds_to_90 --arms magic --dataset digits
experiment rounds_to_90 --dataset digits --only nothing --work work --out out
kmeans --dataset text.npz
kmeans --dataset ok.npz --k 2
kmeans --dataset loose.npz --k 2
demo --dataset loose.npz
kmeans --k 2000
unlearn --dir nowhere --client 1 --all
privacy plan --clients 0
privacy plan --config nowhere.toml
attack magic
attack gradient --dataset nowhere
doctor --config nowhere.toml
doctor --config broken.toml
doctor --rounds 0
doctor --config reached.toml --account me
completion csh
completion
estimate --config four.toml --members 10 | --base-fee
estimate --config four.toml --members 10 --base-fee 1 --rpc http://127.0.0.1:1 | only one of
estimate --config four.toml --members 10 --rpc http://127.0.0.1:1 | 127.0.0.1
estimate --config four.toml --members 10 --base-fee nan | --base-fee
estimate --config four.toml --members 10 --base-fee -1 | --base-fee
estimate --config four.toml --members 10 --base-fee 1 --price inf | 2500 EUR
estimate --config four.toml --members 10 --base-fee 1 --price 2500 | 2500 EUR
estimate --config four.toml --members 2 --base-fee 1 | quorum
estimate --config nowhere.toml --members 10 --base-fee 1 | nowhere.toml
audit nowhere --follow | is a run at rest
audit --follow | or --rpc, --ledger and --store
audit --follow --rpc http://127.0.0.1:1 | all of --rpc
audit --follow AWAY | does not answer
audit AWAY --webhook http://127.0.0.1:1 | --webhook needs --follow
audit --follow AWAY --webhook file:///etc/passwd | --webhook: the webhook must
audit --follow AWAY --webhook http:// | --webhook: the webhook must
audit --follow AWAY --interval 0 | interval
audit DEAD --ledger DEAD --rpc http://127.0.0.1:1 --store disk:. | given twice
audit --ledger 0x12 --rpc http://127.0.0.1:1 --store disk:. | must be an address
audit nowhere.toml | nowhere.toml
history export nowhere --csv tables | there is no nowhere; give
history export RUN --csv tables --rpc http://127.0.0.1:1 | go with a ledger's address
history export DEAD --csv tables | give --rpc and --store
history export --csv tables | a federation's TOML file, or --rpc, --ledger and --store
model save DEAD --rpc http://127.0.0.1:1 --store disk:. | give the FILE to write
model save DEAD model --rpc http://127.0.0.1:1 --store disk:nowhere | no store at nowhere
model save RUN model --round 99 | round 99 did not close
model save RUN no/such/place | cannot write
model save text.car model | archive
explorer DEAD DEAD | only one ledger
explorer RUN RUN | given twice
explorer RUN RUN RUN RUN RUN RUN RUN RUN RUN | at most 8
explorer RUN --rpc http://127.0.0.1:1 | all of --rpc, --ledger and --store
explorer RUN nowhere | nowhere
explorer RUN --price much | 2500 EUR
explorer RUN --block-explorer https://chain.example | {kind}
network up --strategy magic | --strategy
network up --store tape | --store
network up --alpha 0 | --alpha
network up --clients 4 --standby 5 | --standby
network up --dataset nothing | dataset
network up --method procfl --clients 5 | --clients must be 6 or more with method, not 5
network up --method procfl --epsilon 8 | cannot be combined
network up --method ifca | --method must be one of training, procfl, kmeans
network up --task points | scenario.data is missing: give --data
network up --task points --data nosuch.csv | --data: there is no nosuch.csv
network up --task points --data . --k 3 | --k is not for tasks: leave it out with --task
network up --task points --data . --dataset mnist | --dataset is not for tasks
network up --task nowhere --data points.csv | nowhere is neither a folder nor a Python file
network up --k 3 --method procfl | a scenario has one method
network up --k 3 --held-out 0.2 | --held-out is for models
network up --held-out 1 | --held-out must be from 0 to 0.9
network up --masking none | --masking must be one of bbtsa, pairwise
network up --table-format decimal=, | --table-format is for the tables of a task
network up --k 3 --epsilon 8 | --epsilon is for models
network up --k 3 --set training.epochs=2 | training.epochs is for models
network up --k 3 --alpha 1 | --alpha is for models
network up --k 3 --wait | leave --wait out
network up --k 3 --dataset iris | --dataset must be one of gaussian
network up --store disk --base tiny=tiny | --base are a task's frozen bases: leave them out with a data set
privacy plan GEYER --participation hidden | --participation must be public or secret
privacy plan GEYER --epsilon 0 | --epsilon must be from 0.001 to 1000
privacy plan GEYER --delta 1 | --delta must be from
privacy plan --clients 1000 --rate nan --rounds 3 | --rate must be above 0
privacy spent GEYER --noise-multiplier 0 | --noise-multiplier must be from
privacy spent GEYER --noise-multiplier 1 --participations 55 | --participations must be at most
privacy spent GEYER --noise-multiplier 1 --epsilon nan | --epsilon must be from 0
SMALL --clients 0 | --clients must be
SMALL --alpha 0 | --alpha must be
SMALL --method magic | --method must be training, or one of procfl, ifca, global
SMALL --method 'procfl, alpha' | --method must be like
SMALL --method 'procfl, alpha = 0' | procfl.alpha must be above 0
simulate --scenario none.toml | cannot read none.toml
simulate --scenario text.json | text.json is not valid TOML
SMALL --set rounds=3 | --set must be TABLE.KEY=VALUE
SMALL --set a.b.c.d=3 | --set must be TABLE.KEY=VALUE
SMALL --set privacy.phases=[1 | --set privacy.phases must have a TOML value
SMALL --set federation.sampled=0.5 | unknown key federation.sampled
SMALL --set partition.copies=4 | the data do not suit this scenario: 4 copies of the data
SMALL --set partition.kind=shards --set partition.per_client=400 | shards
SMALL --scenario private.toml | does not afford a single round
SMALL --set privacy.mechanism=signds --set privacy.dimensions=1000000 | dimensions must be
SMALL --set attack.kind=flip --method global | attack.kind must be one of
SMALL --set strategy.options.q=8 | strategy.options must be left out
SMALL --strategy fedaom --set strategy.options.q=nan | finite
SMALL --set model.name=paper-cnn | too small
SMALL --seeds 1,x | whole numbers
SMALL --seeds '' | whole numbers
SMALL --seeds 99999999999999999999 | seed must be
SMALL --executor ray | must be inline
SMALL --workers -1 | --workers
SMALL --dataset nothing | unknown dataset
SMALL --dataset missing.npz | cannot read missing.npz
SMALL --clients 1000 | samples are too few
SMALL --resume | --resume needs --out
SMALL --out text.json/below | cannot make the directory
simulate --task points --data points.csv --base tiny | --base must be NAME=PATH
simulate --task points --data points.csv --base =x | --base must be NAME=PATH
simulate --task points --data points.csv --base tiny= | --base must be NAME=PATH
simulate --task points --executor inline | scenario.data is missing: give --data
simulate --data points.csv --executor inline | --data must be left out without a task
TASK --method procfl | procfl trains shipped networks, and no task
TASK --alpha 0.1 | --alpha is not for tasks: leave it out with --task
TASK --dataset mnist | --dataset is not for tasks: leave it out with --task
TASK --sandbox none | --sandbox must be one of auto, strict, contained, off, not 'none'
simulate --task gone --data points.csv | gone is neither a folder nor a Python file
status --config reached.toml --price nan | 2500 EUR
status --config reached.toml --price 2500 | 2500 EUR
status --config reached.toml --account 0x12 | --account must be an address
status --config reached.toml --keystore alice.json --account DEAD | give only one of
status --config reached.toml --keystore nobody.json | nobody.json
status --config reached.toml --watch --interval 0 | interval
task check nowhere | neither a folder nor a Python file
task check text.json | neither a folder nor a Python file
task check points --data nowhere | there is no nowhere
task check points --sandbox loose | sandbox
task check points --strategy best | --strategy must be one of fedaom
task check points --strategy moon --config x.toml | --config states the strategy: leave --strategy out
task new other --images empty --table train.csv | --table and --images are for two kinds of data
task new other --images away | there is no away: give a folder
client --config task.toml --keystore none.json --data points.csv --part 0/3 | --part must be like 2/5
client --config task.toml --keystore none.json --data points.csv --part 4/3 | --part must be like 2/5
client --config task.toml --keystore none.json --data points.csv --part 1 | --part must be like 2/5
client --config task.toml --keystore none.json --data points.csv --part -1/3 | --part must be like 2/5
client --config task.toml --keystore none.json --data points.csv --part x/y | --part must be like 2/5
unlearn | give the points to forget: --points with their rows, or --all
unlearn --points 1 --all | give the points to forget
unlearn --points 1 | give the client whose points to forget: --client
unlearn --client 1 --points x | --points must be rows with commas
unlearn --client 1 --points 9-3 | '9-3' is empty
unlearn --client 1 --points 0-99999999 | more than 1,048,576 points
unlearn --client 1 --all | there is no federation in
unlearn --config f.toml --client 1 --all | give either --dir and --client, or --config
unlearn --config f.toml --all | also give --keystore and --state
kmeans --store ftp://x | --store must be disk, kubo or the URL
kmeans --dataset iris | --dataset must be one of gaussian, celltype, covtype, or a .npz
kmeans --dataset mine.npz | give the number of clusters, --k
kmeans --dataset mine.npz --k 2 | mine.npz
kmeans --dataset celltype | give the directory of the datasets
kmeans --points 3 --clients 4 | 3 points are too few for 4 clients
kmeans --clients 2 | --clients must be a whole number from 3 to 1000, not 2
kmeans --set training.epochs=3 | training.epochs is for models
kmeans --set federation.patience=3 | federation.patience is for models
kmeans --set procfl.alpha=0.5 | procfl is for models: leave it out with kmeans
kmeans --set run.chain=embedded | run.chain must be anvil
kmeans --dir points | is not empty
""".splitlines()[1:]
