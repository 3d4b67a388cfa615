-- Tables. Names and state words are seed 004's; the schema's name is replaced by the configured one.
-- Names are compared as bytes (COLLATE "C"), so that lists have the same order on every server.

CREATE SEQUENCE weaver.job_run_ids;
CREATE SEQUENCE weaver.document_versions;
CREATE SEQUENCE weaver.move_numbers;

-- Live runs: those that have not ended, and cancelled ones whose handler has not stopped (cancellation hold). A renewal changes no
-- indexed column, so it is a HOT update. Half of each page is left free, so that a start stays on its page as well and the
-- write-ahead log gets only the changed part.
CREATE TABLE weaver.job_runs (
    -- Columns that a start does not change are at both ends of the row: the write-ahead log gets only the part between.
    id bigint NOT NULL,
    created_at timestamptz NOT NULL,
    ready_at timestamptz NOT NULL,
    retry_of bigint,
    scheduled_for timestamptz,
    expires_at timestamptz,
    timeout_us bigint,
    renewals integer NOT NULL,
    max_attempts smallint NOT NULL,
    max_losses smallint NOT NULL,
    failures smallint NOT NULL,
    losses smallint NOT NULL,
    priority smallint NOT NULL,
    -- Whether it was enqueued for a later time: both kinds are PENDING. It never changes.
    scheduled boolean NOT NULL,
    -- Columns that a start changes.
    updated_at timestamptz NOT NULL,
    first_started_at timestamptz,
    finished_at timestamptz,
    lease_started_at timestamptz,
    lease_expires_at timestamptz,
    lease_ttl_us bigint,
    leader_epoch bigint,
    assigned_at timestamptz,
    assigned_epoch bigint,
    continuation_check_deadline_at timestamptz,
    version integer NOT NULL,
    attempt integer NOT NULL,
    executions integer NOT NULL,
    -- The format of the row: a node skips formats it does not know. At this position it takes two bytes; next to `scheduled`,
    -- before an eight-byte column, alignment would make it eight.
    format smallint NOT NULL DEFAULT 1,
    progress_fraction real,
    lease_token uuid,
    state text COLLATE "C" NOT NULL,
    cause text COLLATE "C",
    -- The outcome of the attempt that ended the run; its worker and start stay in the row.
    outcome text COLLATE "C",
    assigned_worker_id text COLLATE "C",
    -- Columns that a start does not change.
    continuation_state text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,
    serial_key text COLLATE "C",
    idempotency_key text COLLATE "C",
    job_definition_id text COLLATE "C",
    task_group_id text COLLATE "C",
    session_id text COLLATE "C",
    content_type text COLLATE "C",
    labels jsonb,
    -- NULL means `RETRY_WHEN_NULL` in row.rs, which belongs to the schema: a new default of core would be stored explicitly.
    retry jsonb,
    trace jsonb,
    progress_message text,
    last_error text,
    log_ref text,
    result bytea,
    payload bytea NOT NULL,
    CONSTRAINT job_runs_pkey PRIMARY KEY (namespace, id),
    CONSTRAINT job_runs_continuation CHECK (continuation_state IN ('NONE', 'CONFIRMING'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);

-- Seed 3.1 `(state, scheduled_for)`: the next runs to lease, in the order of G7. It contains waiting runs only.
CREATE INDEX job_runs_ready ON weaver.job_runs (namespace, queue, priority, ready_at, id)
    WHERE state IN ({waiting});
-- Seed 3.1 `(assigned_worker_id, state)`: assigned and orphaned runs of a worker. Leased runs are found by their lease.
CREATE INDEX job_runs_assigned ON weaver.job_runs (assigned_worker_id, state)
    WHERE state IN ('ASSIGNED', 'ORPHANED');
-- For repeated lease calls; a full scan of it finds everything that runs.
CREATE INDEX job_runs_leased ON weaver.job_runs (lease_token) WHERE lease_token IS NOT NULL;
-- Runs that are running without a lease: none, unless a row was changed with the guards disabled. For maintenance.
CREATE INDEX job_runs_unleased ON weaver.job_runs (id) WHERE state = 'RUNNING' AND lease_token IS NULL;
CREATE INDEX job_runs_serial ON weaver.job_runs (namespace, serial_key, id) WHERE serial_key IS NOT NULL;
CREATE INDEX job_runs_expiring ON weaver.job_runs (expires_at) WHERE expires_at IS NOT NULL AND {is_unstarted(executions)};
CREATE INDEX job_runs_group ON weaver.job_runs (namespace, task_group_id, id) WHERE task_group_id IS NOT NULL;
CREATE INDEX job_runs_session ON weaver.job_runs (namespace, session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX job_runs_labels ON weaver.job_runs USING gin (labels) WHERE labels IS NOT NULL;
-- Rows written by a newer Weaver, for the list of unreadable records.
CREATE INDEX job_runs_format ON weaver.job_runs (format, namespace, id) WHERE format <> 1;

-- Finished runs, moved here by the statement that ends them. Never updated, except for `log_ref`.
CREATE TABLE weaver.job_run_history (
    LIKE weaver.job_runs,
    CONSTRAINT job_run_history_pkey PRIMARY KEY (namespace, id),
    CONSTRAINT job_run_history_ended CHECK (finished_at IS NOT NULL AND lease_token IS NULL)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);
-- NULL: the same as `finished_at`.
ALTER TABLE weaver.job_run_history ALTER updated_at DROP NOT NULL;
ALTER TABLE weaver.job_run_history ALTER format SET DEFAULT 1;

-- For retention. Seed 3.1's `(created_at)` is the primary key: ids are in the order of creation.
CREATE INDEX job_run_history_finished ON weaver.job_run_history (finished_at);
CREATE INDEX job_run_history_queue ON weaver.job_run_history (namespace, queue, id);
CREATE INDEX job_run_history_type ON weaver.job_run_history (namespace, task_type, id);
CREATE INDEX job_run_history_state ON weaver.job_run_history (namespace, state, id) WHERE state <> 'SUCCEEDED';
CREATE INDEX job_run_history_group ON weaver.job_run_history (namespace, task_group_id, id)
    WHERE task_group_id IS NOT NULL;
CREATE INDEX job_run_history_session ON weaver.job_run_history (namespace, session_id, id)
    WHERE session_id IS NOT NULL;
CREATE INDEX job_run_history_format ON weaver.job_run_history (format, namespace, id) WHERE format <> 1;

-- The labels of finished runs in the order of ids: a GIN index returns the runs of a label unordered, so that a page of a frequent
-- label would read and sort them all. `label` is a hash of name and value; a query compares the run's own labels as well.
CREATE TABLE weaver.job_run_labels (
    namespace text COLLATE "C" NOT NULL,
    label bigint NOT NULL,
    run_id bigint NOT NULL,
    CONSTRAINT job_run_labels_pkey PRIMARY KEY (namespace, label, run_id)
);

CREATE FUNCTION weaver.label(p_name text, p_value text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(p_name || E'\x01' || p_value, 11)
$$;

CREATE FUNCTION weaver.keep_labels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO weaver.job_run_labels
    SELECT NEW.namespace, weaver.label(l.key, l.value), NEW.id FROM jsonb_each_text(NEW.labels) l
    WHERE l.value IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE FUNCTION weaver.drop_labels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM weaver.job_run_labels t
    WHERE t.namespace = OLD.namespace AND t.run_id = OLD.id
        AND t.label = ANY (ARRAY(SELECT weaver.label(l.key, l.value) FROM jsonb_each_text(OLD.labels) l));
    RETURN NULL;
END
$$;

-- Attempts that did not end their run. The one that did is stored in the run.
CREATE TABLE weaver.closed_attempts (
    namespace text COLLATE "C" NOT NULL,
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    assigned_worker_id text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    started_at timestamptz,
    ended_at timestamptz NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    error text,
    CONSTRAINT closed_attempts_pkey PRIMARY KEY (namespace, run_id, attempt)
);

-- Unique keys; they outlive their run (G8).
CREATE TABLE weaver.idempotency_keys (
    namespace text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    run_id bigint NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (namespace, idempotency_key)
);
CREATE INDEX idempotency_keys_until ON weaver.idempotency_keys (until);

CREATE TABLE weaver.schedule_keys (
    namespace text COLLATE "C" NOT NULL,
    job_definition_id text COLLATE "C" NOT NULL,
    scheduled_for timestamptz NOT NULL,
    run_id bigint NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT schedule_keys_pkey PRIMARY KEY (namespace, job_definition_id, scheduled_for)
);
CREATE INDEX schedule_keys_until ON weaver.schedule_keys (until);

-- One row per statement that changed states: the changes, for their readers, and the deltas of the counts. An array of length one
-- applies to all ids. `xid` and a reader's last snapshot tell which rows are new to it.
CREATE TABLE weaver.moves (
    seq bigint NOT NULL DEFAULT nextval('weaver.move_numbers'),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL,
    ids bigint[] NOT NULL,
    namespaces text[] NOT NULL,
    versions integer[] NOT NULL,
    states smallint[] NOT NULL,
    count_namespaces text[] NOT NULL,
    count_queues text[] NOT NULL,
    count_states smallint[] NOT NULL,
    count_deltas integer[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX moves_xid ON weaver.moves (xid);

-- The sum of all moves up to the snapshot in `run_counts_as_of`.
CREATE TABLE weaver.run_counts (
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    state smallint NOT NULL,
    count bigint NOT NULL,
    CONSTRAINT run_counts_pkey PRIMARY KEY (namespace, queue, state)
) WITH (fillfactor = 50);
-- `trimmed`: the newest pruned move; a reader that has not read it must resync.
CREATE TABLE weaver.run_counts_as_of (snapshot pg_snapshot NOT NULL, trimmed xid8 NOT NULL);
INSERT INTO weaver.run_counts_as_of VALUES (pg_current_snapshot(), '0');

CREATE TABLE weaver.queues (
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    paused boolean NOT NULL,
    max_running bigint,
    version bigint NOT NULL,
    CONSTRAINT queues_pkey PRIMARY KEY (namespace, queue)
);

CREATE TABLE weaver.runners (
    namespace text COLLATE "C" NOT NULL,
    runner_id text COLLATE "C" NOT NULL,
    project_root text,
    started_at timestamptz,
    queues text[],
    types text[],
    capacity bigint,
    running bigint,
    draining boolean,
    status text COLLATE "C" NOT NULL,
    directive text COLLATE "C" NOT NULL,
    -- NULL: it has a directive but has not sent a heartbeat yet.
    last_heartbeat timestamptz,
    seen_at timestamptz NOT NULL,
    CONSTRAINT runners_pkey PRIMARY KEY (namespace, runner_id)
) WITH (fillfactor = 50);

-- Documents by kind. Schedules, events and settings have tables of their own, as in the seed.
CREATE TABLE weaver.documents (
    namespace text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    due_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT documents_pkey PRIMARY KEY (namespace, kind, id)
) WITH (fillfactor = 80);
CREATE INDEX documents_due ON weaver.documents (kind, due_at, namespace, id) WHERE due_at IS NOT NULL;

CREATE TABLE weaver.job_definitions (
    LIKE weaver.documents,
    CONSTRAINT job_definitions_pkey PRIMARY KEY (namespace, kind, id),
    CONSTRAINT job_definitions_kind CHECK (kind = 'job_definition')
);
CREATE INDEX job_definitions_due ON weaver.job_definitions (kind, due_at, namespace, id) WHERE due_at IS NOT NULL;

CREATE TABLE weaver.settings (
    LIKE weaver.documents,
    CONSTRAINT settings_pkey PRIMARY KEY (namespace, kind, id),
    CONSTRAINT settings_kind CHECK (kind = 'setting')
);
CREATE INDEX settings_due ON weaver.settings (kind, due_at, namespace, id) WHERE due_at IS NOT NULL;

-- An event is due until it is processed. Its id is the deduplication key.
CREATE TABLE weaver.events (
    LIKE weaver.documents,
    processed_at timestamptz GENERATED ALWAYS AS (CASE WHEN due_at IS NULL THEN updated_at END) STORED,
    dedupe_key text COLLATE "C" GENERATED ALWAYS AS (id) STORED,
    CONSTRAINT events_pkey PRIMARY KEY (namespace, kind, id),
    CONSTRAINT events_kind CHECK (kind = 'event')
);
CREATE INDEX events_due ON weaver.events (kind, due_at, namespace, id) WHERE due_at IS NOT NULL;
CREATE INDEX events_unprocessed ON weaver.events (processed_at, created_at);
CREATE UNIQUE INDEX events_dedupe ON weaver.events (namespace, dedupe_key);

-- Journal streams: the row of a stream numbers its entries, which are in the tables below.
CREATE TABLE weaver.streams (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    last_seq bigint NOT NULL,
    run_id bigint,
    -- The file with the entries up to `log_ref_seq`.
    log_ref text,
    log_ref_seq bigint,
    CONSTRAINT streams_pkey PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);
CREATE INDEX streams_run ON weaver.streams (namespace, run_id) WHERE run_id IS NOT NULL;

CREATE TABLE weaver.journal (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT journal_pkey PRIMARY KEY (namespace, name, seq)
);
CREATE TABLE weaver.audit (LIKE weaver.journal, CONSTRAINT audit_pkey PRIMARY KEY (namespace, name, seq));
CREATE TABLE weaver.job_run_logs (
    LIKE weaver.journal,
    CONSTRAINT job_run_logs_pkey PRIMARY KEY (namespace, name, seq)
);
CREATE INDEX job_run_logs_at ON weaver.job_run_logs (at);

-- All runs, live and finished.
CREATE VIEW weaver.all_job_runs AS
    SELECT * FROM weaver.job_runs
    UNION ALL
    SELECT id, created_at, ready_at, retry_of, scheduled_for, expires_at, timeout_us, renewals, max_attempts, max_losses,
        failures, losses, priority, scheduled, coalesce(updated_at, finished_at), first_started_at, finished_at,
        lease_started_at, lease_expires_at, lease_ttl_us, leader_epoch, assigned_at, assigned_epoch,
        continuation_check_deadline_at, version, attempt, executions, format, progress_fraction, lease_token, state, cause,
        outcome, assigned_worker_id, continuation_state, namespace, queue, task_type, serial_key, idempotency_key,
        job_definition_id, task_group_id, session_id, content_type, labels, retry, trace, progress_message,
        last_error, log_ref, result, payload
    FROM weaver.job_run_history;
CREATE VIEW weaver.job_run_attempts AS
    SELECT * FROM weaver.closed_attempts
    UNION ALL
    SELECT namespace, id, attempt, assigned_worker_id, version - 1, lease_started_at, finished_at, outcome,
        CASE WHEN cause IN ('failed', 'timed_out', 'lost', 'handler') THEN last_error END
    FROM weaver.all_job_runs WHERE outcome IS NOT NULL;
