"""Mistakes on the command line, by command: each is to get one sentence and exit code 2 (``test_bad_input``)."""

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
audit --rpc http://127.0.0.1:1
audit --rpc http://127.0.0.1:1 --ledger 0x000000000000000000000000000000000000dEaD --store disk:empty
audit --rpc http://127.0.0.1:1 --ledger 0x00 --store disk:empty
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
status --config reached.toml --account me
status --config reached.toml --keystore text.json
status --config reached.toml --interval 0
bench
bench nonsense
bench masking --parameters 1
bench ipfs --mib 0
history export empty --csv tables
history export garbage --csv text.json
history export nowhere
model save nowhere m.safetensors
model save garbage m.safetensors
model save garbage m.safetensors --round -1
approve me --config reached.toml --keystore alice.json
client --config reached.toml --keystore alice.json --data nowhere.npz
client --config reached.toml --keystore alice.json --data ok.npz --part 3/2
client --config reached.toml --keystore alice.json --data ok.npz --metrics-port 70000
coordinator --config broken.toml --keystore alice.json
coordinator --config reached.toml --keystore alice.json --members -1
task new text.json
task new fresh --table nowhere.csv
task new fresh --images nowhere
task new fresh --images empty
task check nowhere --data ok.npz
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
simulate --plan nowhere.toml
simulate --plan broken.toml
simulate --plan latin.toml
simulate --plan deep.toml
simulate --plan empty
simulate --plan pipe
simulate --clients 0
simulate --clients many
simulate --set rounds
simulate --set training.epochs=abc
simulate --set a.b.c.d=1
simulate --seeds a
simulate --executor gpu
simulate --workers -1
simulate --out text.json --clients 2 --rounds 1 --executor inline
simulate --resume
simulate --method magic
simulate --data ok.npz
experiment nonsense
experiment rounds_to_90 --seeds x
experiment rounds_to_90 --arms magic --dataset digits
experiment rounds_to_90 --dataset digits --only nothing --work work --out out
kmeans --clients 2
kmeans --dataset nowhere
kmeans --dataset text.npz
kmeans --dataset ok.npz --k 2
kmeans --dataset loose.npz --k 2
demo --dataset loose.npz
kmeans --k 2000
unlearn
unlearn --dir nowhere --client 1 --all
unlearn --dir empty --client 1
unlearn --dir empty --client 1 --points x
unlearn --config reached.toml --keystore alice.json
privacy plan --clients 0
privacy plan --epsilon nan
privacy plan --config nowhere.toml
privacy spent --noise-multiplier -1
attack magic
attack gradient --dataset nowhere
doctor --config nowhere.toml
doctor --config broken.toml
doctor --rounds 0
doctor --config reached.toml --account me
completion csh
completion
""".splitlines()[1:]
