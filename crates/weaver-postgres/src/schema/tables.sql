-- Tables. What never changes is written once: a task's spec is a row of `tasks`; where the task is follows from three narrow tables.
-- It has ended (`ended`), else a worker holds it (`leases`), else it waits (`ready`). Names are compared as bytes (COLLATE "C"), so that
-- lists have the same order on every server. The schema's name is replaced by the configured one.

CREATE SEQUENCE weaver.job_run_ids;
CREATE SEQUENCE weaver.lease_ids;
CREATE SEQUENCE weaver.document_versions;
CREATE SEQUENCE weaver.move_numbers;
CREATE SEQUENCE weaver.pending_audit_places;

-- What a task was enqueued with. Inserted once, never updated, deleted by retention.
CREATE TABLE weaver.tasks (
    id bigint NOT NULL,
    created_at timestamptz NOT NULL,
    -- The first due time of a task enqueued for later (scheduled); NULL: due since `created_at` (queued).
    run_at timestamptz,
    retry_of bigint,
    scheduled_for timestamptz,
    expires_at timestamptz,
    timeout_us bigint,
    max_attempts smallint NOT NULL,
    max_losses smallint NOT NULL,
    priority smallint NOT NULL,
    -- The number of its own dispatch; NULL: that of its queue.
    dispatch smallint,
    -- The format of the row: a node skips formats it does not know.
    format smallint NOT NULL DEFAULT 1,
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
    payload bytea NOT NULL,
    CONSTRAINT tasks_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);
-- Seed 3.1's `(created_at)` is the primary key: ids are in the order of creation. A namespace is listed queue by queue.
CREATE INDEX tasks_queue ON weaver.tasks (namespace, queue, id);
CREATE INDEX tasks_type ON weaver.tasks (namespace, task_type, id);
CREATE INDEX tasks_group ON weaver.tasks (namespace, task_group_id, id) WHERE task_group_id IS NOT NULL;
CREATE INDEX tasks_session ON weaver.tasks (namespace, session_id, id) WHERE session_id IS NOT NULL;
-- Rows written by a newer Weaver, for the list of unreadable records.
CREATE INDEX tasks_format ON weaver.tasks (format, namespace, id) WHERE format <> 1;

-- Waiting tasks: inserted and deleted, never updated. NULL in `updated_at`: as it was created.
CREATE TABLE weaver.ready (
    id bigint NOT NULL,
    ready_at timestamptz NOT NULL,
    expires_at timestamptz,
    updated_at timestamptz,
    first_started_at timestamptz,
    version integer NOT NULL,
    attempt integer NOT NULL,
    executions integer NOT NULL,
    renewals integer NOT NULL,
    failures smallint NOT NULL,
    losses smallint NOT NULL,
    max_losses smallint NOT NULL,
    priority smallint NOT NULL,
    -- The number of its own dispatch; 0: that of its queue.
    dispatch smallint NOT NULL DEFAULT 0,
    format smallint NOT NULL,
    -- The number of a state of core.
    state smallint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,
    serial_key text COLLATE "C",
    cause text COLLATE "C",
    last_error text,
    CONSTRAINT ready_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
-- Seed 3.1 `(state, scheduled_for)`: the next tasks to lease, in the order of G7.
-- By dispatch, so that neither workers nor a leader read past the tasks of the other.
CREATE INDEX ready_order ON weaver.ready (namespace, queue, dispatch, priority, ready_at, id);
CREATE INDEX ready_serial ON weaver.ready (namespace, serial_key, id) WHERE serial_key IS NOT NULL;
CREATE INDEX ready_expiring ON weaver.ready (expires_at) WHERE expires_at IS NOT NULL AND {is_unstarted(executions)};

-- What workers hold. A lease call takes new tasks of a queue in one row (`is_shared`); a task with a life of its own (serial key,
-- limited queue, fragile, attempted before, assigned, completed in a transaction) has a row to itself. A member of a shared row leaves
-- it by its row in `ended`, or by its id in `gone` (retried, cancelled, or moved to a row of its own).
-- `state`: running, assigned, orphaned, or cancelled: the cancellation hold of a handler that has not stopped.
CREATE TABLE weaver.leases (
    lease_id bigint NOT NULL DEFAULT nextval('weaver.lease_ids'),
    first_id bigint NOT NULL,
    last_id bigint NOT NULL,
    -- NULL unless a worker runs it: `started_at` to `ttl_us` as well.
    token uuid,
    started_at timestamptz,
    expires_at timestamptz,
    ttl_us bigint,
    -- The leader's epoch it started under; NULL: it was pulled.
    epoch bigint,
    assigned_at timestamptz,
    assigned_epoch bigint,
    check_deadline_at timestamptz,
    -- NULL: as in `tasks` (`ready_at`), `started_at` (the others).
    ready_at timestamptz,
    first_started_at timestamptz,
    updated_at timestamptz,
    -- `expires_at` of the task, while it has not started.
    task_expires_at timestamptz,
    version integer NOT NULL,
    attempt integer NOT NULL,
    executions integer NOT NULL,
    renewals integer NOT NULL,
    failures smallint NOT NULL,
    losses smallint NOT NULL,
    format smallint NOT NULL,
    state smallint NOT NULL,
    is_shared boolean NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    worker text COLLATE "C",
    serial_key text COLLATE "C",
    last_error text,
    ids bigint[] NOT NULL,
    gone bigint[] NOT NULL DEFAULT '{}',
    CONSTRAINT leases_pkey PRIMARY KEY (lease_id),
    -- Nothing runs without a whole lease.
    CONSTRAINT leases_whole CHECK (state NOT IN ({number(running)}, {number(cancelled)})
        OR num_nulls(token, started_at, expires_at, ttl_us, worker) = 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
ALTER TABLE weaver.leases ALTER ids SET STORAGE MAIN, ALTER ids SET COMPRESSION lz4;
CREATE INDEX leases_token ON weaver.leases (token) WHERE token IS NOT NULL;
-- The row of a task; shared ones by the range of their ids.
CREATE INDEX leases_task ON weaver.leases (first_id) WHERE NOT is_shared;
CREATE INDEX leases_tasks ON weaver.leases USING gist (int8range(first_id, last_id, '[]')) WHERE is_shared;
-- Seed 3.1 `(assigned_worker_id, state)`.
CREATE INDEX leases_worker ON weaver.leases (worker, state);
-- What a leader watches: few tasks are assigned and not started.
CREATE INDEX leases_unstarted ON weaver.leases (updated_at, first_id)
    WHERE state IN ({number(assigned)}, {number(orphaned)});
CREATE INDEX leases_serial ON weaver.leases (namespace, serial_key) WHERE serial_key IS NOT NULL;

-- Ends: append-only. The primary key is the fence: a second end of a task is a conflict. NULL stands for the usual value:
-- `first_started_at` as `started_at`, `ready_at` as in `tasks`, `executions` as `attempt`, the other counters 0, `outcome` succeeded.
CREATE TABLE weaver.ended (
    id bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    started_at timestamptz,
    first_started_at timestamptz,
    ready_at timestamptz,
    epoch bigint,
    version integer NOT NULL,
    attempt integer NOT NULL,
    executions integer,
    renewals integer,
    failures smallint,
    losses smallint,
    state smallint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    worker text COLLATE "C",
    cause text COLLATE "C",
    outcome text COLLATE "C",
    last_error text,
    result bytea,
    CONSTRAINT ended_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);
-- For retention.
CREATE INDEX ended_finished ON weaver.ended (namespace, queue, finished_at);
CREATE INDEX ended_state ON weaver.ended (namespace, state, id) WHERE state <> {number(succeeded)};

-- The last progress of a task; deleted when it starts again.
CREATE TABLE weaver.progress (
    id bigint NOT NULL,
    fraction real NOT NULL,
    message text NOT NULL,
    CONSTRAINT progress_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);

-- Labels in the order of ids: a GIN index returns the tasks of a label unordered, so that a page of a frequent label would read and
-- sort them all. `label` is a hash of name and value; a query compares the task's own labels as well.
CREATE TABLE weaver.task_labels (
    namespace text COLLATE "C" NOT NULL,
    label bigint NOT NULL,
    task_id bigint NOT NULL,
    CONSTRAINT task_labels_pkey PRIMARY KEY (namespace, label, task_id)
);

CREATE FUNCTION weaver.label(p_name text, p_value text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(p_name || E'\x01' || p_value, 11)
$$;

-- Attempts that did not end their task. The one that did is stored in `ended`.
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
    CONSTRAINT closed_attempts_pkey PRIMARY KEY (run_id, attempt)
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
-- A batch has a thousand ids: the default compression of them was a twentieth of an enqueue.
ALTER TABLE weaver.moves ALTER ids SET STORAGE MAIN, ALTER ids SET COMPRESSION lz4;
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
    -- The number of a dispatch of core.
    dispatch smallint NOT NULL,
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
    -- How often its worker sends a heartbeat; NULL: it does not say.
    every_ms bigint,
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
-- Audit entries of enqueues that have no number yet (`audit.sql`).
CREATE TABLE weaver.pending_audit (
    place bigint NOT NULL DEFAULT nextval('weaver.pending_audit_places'),
    namespace text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT pending_audit_pkey PRIMARY KEY (namespace, place)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE TABLE weaver.job_run_logs (
    LIKE weaver.journal,
    CONSTRAINT job_run_logs_pkey PRIMARY KEY (namespace, name, seq)
);
CREATE INDEX job_run_logs_at ON weaver.job_run_logs (at);

