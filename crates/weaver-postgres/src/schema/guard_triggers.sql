-- Guard triggers: refuse writes that Weaver itself never makes, from any client. Conditions on one row are in WHEN clauses and call
-- no function; other tables are read once per statement. Conditions are generated from the tables in `weaver_core::lifecycle`
-- (transitions, counters, shapes) and `weaver_core::task::fields` (limits). Every trigger is enabled ALWAYS (`guard_triggers.rs`),
-- so that no session setting disables it.

-- The record of deletions: a transaction that deletes finished runs or audit entries first inserts a row here.
CREATE TABLE weaver.purges (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    who text NOT NULL DEFAULT session_user,
    what text NOT NULL,
    -- Whether it also covers live runs.
    live boolean NOT NULL DEFAULT false
);
CREATE INDEX purges_xid ON weaver.purges (xid);

-- The full condition on an update, called only if the trigger's short condition fails: PostgreSQL parses a trigger's WHEN clause
-- again in every statement.
CREATE FUNCTION weaver.guard_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (
{update_condition}) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'task %/%: transition from % at version % to % at version % with these columns is not allowed', OLD.namespace,
        OLD.id, OLD.state, OLD.version, NEW.state, NEW.version
        USING ERRCODE = '23514', HINT = 'use weaver tasks cancel or weaver tasks run-now';
END
$$;

CREATE FUNCTION weaver.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = '23514', HINT = TG_ARGV[1];
END
$$;

-- Rows deleted from `job_runs` and not yet inserted into history, per transaction: their number and a digest of the columns that
-- must not change. Written by triggers only; empty whenever a transaction commits. Comparing the tables row by row added half
-- to the cost of an end. One row per connection, updated in place, would get slower while an old snapshot keeps its dead versions.
CREATE UNLOGGED TABLE weaver.departures (
    xid xid8 PRIMARY KEY,
    runs bigint NOT NULL,
    digest bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE FUNCTION weaver.guard_departures() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
    v_digest bigint;
    v_waits boolean;
BEGIN
    SELECT count(*), bit_xor({digest}), bool_or(r.finished_at IS NULL AND r.state <> 'RUNNING')
    INTO v_count, v_digest, v_waits FROM old_rows r;
    IF v_waits AND NOT EXISTS (SELECT FROM weaver.purges p WHERE p.xid = pg_current_xact_id() AND p.live) THEN
        RAISE EXCEPTION 'DELETE of live tasks is refused: rows of job_runs are only moved to job_run_history'
            USING ERRCODE = '23514', HINT = 'cancel them with weaver tasks cancel';
    ELSIF v_count > 0 AND NOT v_waits THEN
        INSERT INTO weaver.departures AS d VALUES (pg_current_xact_id(), v_count, v_digest)
        ON CONFLICT (xid) DO UPDATE SET runs = d.runs + v_count, digest = d.digest # v_digest;
    END IF;
    RETURN NULL;
END
$$;

-- Rows inserted into history must have been deleted from `job_runs` in the same transaction, and have a valid final state.
CREATE FUNCTION weaver.guard_arrivals() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
    v_digest bigint;
    v_ends boolean;
BEGIN
    SELECT count(*), bit_xor({digest}), bool_and(
{end_condition})
    INTO v_count, v_digest, v_ends FROM new_rows r;
    IF v_count = 0 THEN
        RETURN NULL;
    END IF;
    DELETE FROM weaver.departures d
    WHERE d.xid = pg_current_xact_id() AND d.runs = v_count AND d.digest = v_digest;
    IF NOT FOUND OR v_ends IS NOT TRUE THEN
        RAISE EXCEPTION 'INSERT into job_run_history is refused: these tasks were not live, or cannot have ended in this state'
            USING ERRCODE = '23514', HINT = 'only Weaver writes the history';
    END IF;
    RETURN NULL;
END
$$;

-- At commit: every row deleted from `job_runs` is in history, or its deletion is recorded in `purges`.
CREATE FUNCTION weaver.guard_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_runs bigint := (SELECT d.runs FROM weaver.departures d WHERE d.xid = NEW.xid);
BEGIN
    IF v_runs IS NULL THEN
        RETURN NULL;
    ELSIF NOT EXISTS (SELECT FROM weaver.purges p WHERE p.xid = NEW.xid AND p.live) THEN
        RAISE EXCEPTION 'DELETE of % live tasks is refused: rows of job_runs are only moved to job_run_history', v_runs
            USING ERRCODE = '23514', HINT = 'cancel them with weaver tasks cancel';
    END IF;
    DELETE FROM weaver.departures d WHERE d.xid = NEW.xid;
    RETURN NULL;
END
$$;

-- An attempt is closed while its run still has it. STABLE: it then sees the rows as of the start of the statement.
CREATE FUNCTION weaver.guard_attempts() RETURNS trigger LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM new_rows n LEFT JOIN LATERAL (SELECT * FROM weaver.job_runs r
            WHERE r.namespace = n.namespace AND r.id = n.run_id LIMIT 1) r ON true
        WHERE (r.attempt = n.attempt AND r.version = n.fence AND r.assigned_worker_id = n.assigned_worker_id
            AND r.lease_started_at IS NOT DISTINCT FROM n.started_at) IS NOT TRUE) THEN
        RAISE EXCEPTION 'INSERT into closed_attempts is refused: it is not the current attempt of a task'
            USING ERRCODE = '23514', HINT = 'only Weaver closes attempts';
    END IF;
    RETURN NULL;
END
$$;

-- Deletions that are not recorded in `purges`.
CREATE FUNCTION weaver.guard_removals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_rows)
            AND NOT EXISTS (SELECT FROM weaver.purges p WHERE p.xid = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'DELETE of % is refused: only retention and recorded purges delete it', TG_TABLE_NAME
            USING ERRCODE = '23514', HINT = 'use weaver tasks purge, or first, in the same transaction: '
                'INSERT INTO weaver.purges (what) VALUES (''why'')';
    END IF;
    RETURN NULL;
END
$$;

-- Entries are numbered by their stream: one beyond the last number would make the next append fail.
CREATE FUNCTION weaver.guard_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM new_rows n LEFT JOIN weaver.streams s ON s.namespace = n.namespace AND s.name = n.name
            WHERE (n.seq BETWEEN 1 AND s.last_seq) IS NOT TRUE) THEN
        RAISE EXCEPTION 'INSERT into audit is refused: its stream did not number these entries'
            USING ERRCODE = '23514', HINT = 'only Weaver writes the audit log';
    END IF;
    RETURN NULL;
END
$$;

-- An inserted run with a unique key: the key is reserved for it already, or free and now reserved.
CREATE FUNCTION weaver.guard_unique() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_until timestamptz := weaver.later(v_now, {unique_us});
BEGIN
    IF NEW.idempotency_key IS NOT NULL AND NOT EXISTS (SELECT FROM weaver.idempotency_keys k
            WHERE k.namespace = NEW.namespace AND k.idempotency_key = NEW.idempotency_key AND k.run_id = NEW.id) THEN
        INSERT INTO weaver.idempotency_keys AS k VALUES (NEW.namespace, NEW.idempotency_key, NEW.id, v_until)
        ON CONFLICT (namespace, idempotency_key) DO UPDATE SET run_id = NEW.id, until = v_until
        WHERE k.until <= v_now;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a task with idempotency key % exists in namespace %', NEW.idempotency_key, NEW.namespace
                USING ERRCODE = '23505', HINT = 'use weaver.enqueue(), which returns the id of that task';
        END IF;
    END IF;
    IF NEW.job_definition_id IS NOT NULL AND NEW.scheduled_for IS NOT NULL AND NOT EXISTS (
            SELECT FROM weaver.schedule_keys k WHERE k.namespace = NEW.namespace
                AND k.job_definition_id = NEW.job_definition_id AND k.scheduled_for = NEW.scheduled_for
                AND k.run_id = NEW.id) THEN
        INSERT INTO weaver.schedule_keys AS k
        VALUES (NEW.namespace, NEW.job_definition_id, NEW.scheduled_for, NEW.id, v_until)
        ON CONFLICT (namespace, job_definition_id, scheduled_for) DO UPDATE SET run_id = NEW.id, until = v_until
        WHERE k.until <= v_now;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'schedule % already has a task for % in namespace %', NEW.job_definition_id, NEW.scheduled_for,
                NEW.namespace USING ERRCODE = '23505', HINT = 'a schedule creates one task per planned instant';
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- Live runs.
CREATE TRIGGER guard_insert BEFORE INSERT ON weaver.job_runs FOR EACH ROW
    WHEN ((
{entry_condition}) IS NOT TRUE)
    EXECUTE FUNCTION weaver.refuse_change('a new task is PENDING at version 1, with fields within their limits',
        'use weaver.enqueue()');
CREATE TRIGGER guard_unique AFTER INSERT ON weaver.job_runs FOR EACH ROW
    WHEN (NEW.idempotency_key IS NOT NULL OR NEW.job_definition_id IS NOT NULL AND NEW.scheduled_for IS NOT NULL)
    EXECUTE FUNCTION weaver.guard_unique();
CREATE TRIGGER guard_spec BEFORE UPDATE OF {fixed_columns} ON weaver.job_runs FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the fields a task was enqueued with are immutable',
        'cancel it and enqueue another');
-- A lease, the most frequent transition, is checked here; all others by the function.
CREATE TRIGGER guard_move AFTER UPDATE OF {version_columns} ON weaver.job_runs FOR EACH ROW
    WHEN (({lease_condition}) IS NOT TRUE) EXECUTE FUNCTION weaver.guard_move();
-- A statement that sets only these columns renews leases, or is refused.
CREATE TRIGGER guard_renewal AFTER UPDATE OF {renewal_columns} ON weaver.job_runs FOR EACH ROW
    WHEN ((NEW.version <> OLD.version OR NEW.state = 'RUNNING' AND NEW.renewals = OLD.renewals + 1
        AND NEW.lease_expires_at IS NOT NULL) IS NOT TRUE) EXECUTE FUNCTION weaver.guard_move();
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.job_runs REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.guard_departures();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.job_runs FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('live tasks are never truncated', 'cancel them with weaver tasks cancel');

-- The balance between the two tables.
CREATE TRIGGER guard_write BEFORE INSERT OR UPDATE OR DELETE ON weaver.departures FOR EACH ROW
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION weaver.refuse_change('only triggers write it', 'leave this table alone');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.departures FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('only triggers write it', 'leave this table alone');
CREATE CONSTRAINT TRIGGER guard_balance AFTER INSERT OR UPDATE ON weaver.departures
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION weaver.guard_balance();

-- History.
ALTER TABLE weaver.job_run_history ADD CONSTRAINT job_run_history_state CHECK (state IN ({terminal}));
CREATE TRIGGER guard_arrivals AFTER INSERT ON weaver.job_run_history REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_arrivals();
CREATE TRIGGER guard_update BEFORE UPDATE OF {history_columns} ON weaver.job_run_history FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('finished tasks are immutable',
        'retry it as a new task with weaver tasks retry');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.job_run_history REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_removals();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.job_run_history FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('finished tasks are deleted by retention', 'use weaver tasks purge');

-- Closed attempts.
CREATE TRIGGER guard_insert AFTER INSERT ON weaver.closed_attempts REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_attempts();
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.closed_attempts FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('closed attempts are immutable', 'leave them unchanged');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.closed_attempts REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_removals();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.closed_attempts FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('attempts are deleted with their task', 'use weaver tasks purge');

-- The audit log.
CREATE TRIGGER guard_insert AFTER INSERT ON weaver.audit REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_audit();
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.audit FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the audit log is append-only', 'leave it unchanged');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.audit REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_removals();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.audit FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('only retention deletes audit entries', 'wait for their retention');

-- Schedule keys until they expire: deleted or changed earlier, they would admit a duplicate.
CREATE TRIGGER guard_update AFTER UPDATE ON weaver.schedule_keys FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.* AND OLD.until > weaver.clock())
    EXECUTE FUNCTION weaver.refuse_change('the key is reserved for a task until it expires', 'wait until it expires');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.schedule_keys FOR EACH ROW WHEN (OLD.until > weaver.clock())
    EXECUTE FUNCTION weaver.refuse_change('the key is reserved for a task until it expires', 'wait until it expires');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.schedule_keys FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('keys are reserved for tasks until they expire', 'wait until they expire');

-- The record of purges is kept for 90 days.
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.purges FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the record of purges is immutable', 'leave it unchanged');
CREATE TRIGGER guard_delete BEFORE DELETE ON weaver.purges FOR EACH ROW
    WHEN (OLD.at > clock_timestamp() - interval '90 days')
    EXECUTE FUNCTION weaver.refuse_change('the record of purges is kept for 90 days', 'wait until it is older');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.purges FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the record of purges is kept for 90 days', 'wait until it is older');

-- Labels of finished runs are indexed in a table (`tables.sql`). Invalid labels must not fail the statement, which may end other
-- runs as well.
CREATE TRIGGER keep_labels AFTER INSERT ON weaver.job_run_history FOR EACH ROW
    WHEN (jsonb_typeof(NEW.labels) = 'object') EXECUTE FUNCTION weaver.keep_labels();
CREATE TRIGGER drop_labels AFTER DELETE ON weaver.job_run_history FOR EACH ROW
    WHEN (jsonb_typeof(OLD.labels) = 'object') EXECUTE FUNCTION weaver.drop_labels();
