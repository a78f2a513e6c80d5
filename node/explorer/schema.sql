-- Facts as the chain has them. A record's id is its place in the history, from 1: what an audit counts.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE blocks (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, time INTEGER NOT NULL);
CREATE TABLE transactions (
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, block INTEGER NOT NULL, sender TEXT NOT NULL, gas INTEGER NOT NULL,
  wei TEXT NOT NULL -- the fee, as wei are too many for an integer of SQLite
);
CREATE TABLE records (
  id INTEGER PRIMARY KEY, block INTEGER NOT NULL, tx INTEGER NOT NULL, kind TEXT NOT NULL,
  round INTEGER, client INTEGER, fields TEXT NOT NULL
);
CREATE INDEX records_by_round ON records (round, kind);
CREATE INDEX records_by_client ON records (client) WHERE client IS NOT NULL;
CREATE INDEX records_by_transaction ON records (tx);
CREATE INDEX records_by_block ON records (block);

-- What the store said of the blobs when it was last asked (survey: the number of that asking). The text is that of a
-- small document, the head of a state of clusters, or an upload that may be a ballot.
CREATE TABLE blobs (
  digest BLOB PRIMARY KEY, role TEXT NOT NULL, survey INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL DEFAULT 'unseen', cid TEXT, size INTEGER, text BLOB
);
CREATE INDEX blobs_by_survey ON blobs (survey);

-- Derived from the records, and made anew when the chain drops some.
CREATE TABLE named (
  digest BLOB NOT NULL, record INTEGER NOT NULL, role TEXT NOT NULL, PRIMARY KEY (digest, record, role)
) WITHOUT ROWID;
CREATE INDEX named_by_record ON named (record);
CREATE TABLE members (
  client INTEGER PRIMARY KEY, account TEXT NOT NULL, vrf_key TEXT NOT NULL, mailbox_key TEXT NOT NULL,
  active_from INTEGER NOT NULL, record INTEGER NOT NULL, approved INTEGER NOT NULL DEFAULT 1, revoked_at INTEGER NOT NULL DEFAULT 0,
  has_left INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE rounds (
  number INTEGER PRIMARY KEY, status TEXT NOT NULL DEFAULT 'running',
  opened INTEGER NOT NULL, opened_at INTEGER NOT NULL, rate INTEGER NOT NULL, able TEXT NOT NULL,
  config BLOB NOT NULL, trained_from BLOB NOT NULL,
  seed TEXT, order_seed TEXT, order_root TEXT, sealed INTEGER, ended INTEGER, voided INTEGER, replaced INTEGER, model BLOB, metrics BLOB,
  -- all figures as JSON (node.status.rounds), made when the round or what is known of its blobs has changed
  figures TEXT,
  -- what followed for the clusters, made likewise: what comes next, the state's head, what models scored
  stage TEXT, clusters BLOB, scores TEXT
);
CREATE TABLE parts (
  round INTEGER NOT NULL, client INTEGER NOT NULL, samples INTEGER, position INTEGER,
  drawn INTEGER, shared INTEGER, committed INTEGER, released INTEGER, refused INTEGER, judged INTEGER, judged_model BLOB, judged_metrics BLOB,
  PRIMARY KEY (round, client)
) WITHOUT ROWID;
CREATE INDEX parts_by_client ON parts (client);
