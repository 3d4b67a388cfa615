-- Guards: refuse what Weaver itself never does, also to hand-written SQL. Conditions on one row stand in WHEN clauses and
-- call no function; a look at another table happens once per statement. Conditions are generated from the tables in
-- `weaver_core::lifecycle` (moves, counters, shapes) and `weaver_core::task::fields` (limits). Every trigger is enabled
-- ALWAYS (`guard_triggers.rs`), so that no setting of a session passes it by.

-- Explicit removals: what deletes finished runs or audit entries first says so here, in the same transaction.
CREATE TABLE weaver.purges (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    who text NOT NULL DEFAULT session_user,
    what text NOT NULL,
    -- Whether it also covers runs that have not ended.
    live boolean NOT NULL DEFAULT false
);
CREATE INDEX purges_xid ON weaver.purges (xid);

-- The whole condition on an update, where the short ones of the triggers do not hold: long conditions in a trigger are read
-- again by every statement.
CREATE FUNCTION weaver.guard_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (
{update_condition}) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'run %/%: % at version % cannot become % at version % with these columns', OLD.namespace, OLD.id,
        OLD.state, OLD.version, NEW.state, NEW.version
        USING ERRCODE = '23514', HINT = 'use weaver, which knows the rules: weaver tasks cancel, weaver tasks run-now';
END
$$;

CREATE FUNCTION weaver.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = '23514', HINT = TG_ARGV[1];
END
$$;

-- What left `job_runs` and has yet to arrive in history, per transaction: how many, and a digest of what must arrive as it left.
-- Written by triggers alone; empty whenever a transaction commits. Comparing the two tables row by row took half as long again
-- as the ends themselves. A row per connection, updated, would be found ever more slowly while an old snapshot is open.
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
        RAISE EXCEPTION 'DELETE of live runs is refused: a run leaves this table only for job_run_history'
            USING ERRCODE = '23514', HINT = 'cancel them with weaver tasks cancel';
    ELSIF v_count > 0 AND NOT v_waits THEN
        INSERT INTO weaver.departures AS d VALUES (pg_current_xact_id(), v_count, v_digest)
        ON CONFLICT (xid) DO UPDATE SET runs = d.runs + v_count, digest = d.digest # v_digest;
    END IF;
    RETURN NULL;
END
$$;

-- What enters history is what left `job_runs` in the same statement or before, and has ended in a way there is.
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
        RAISE EXCEPTION 'INSERT into history is refused: these runs were not live, or cannot have ended so'
            USING ERRCODE = '23514', HINT = 'history is written by Weaver alone';
    END IF;
    RETURN NULL;
END
$$;

-- At the end of a transaction: what left has arrived, or was purged explicitly.
CREATE FUNCTION weaver.guard_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_runs bigint := (SELECT d.runs FROM weaver.departures d WHERE d.xid = NEW.xid);
BEGIN
    IF v_runs IS NULL THEN
        RETURN NULL;
    ELSIF NOT EXISTS (SELECT FROM weaver.purges p WHERE p.xid = NEW.xid AND p.live) THEN
        RAISE EXCEPTION 'DELETE of % live runs is refused: a run leaves this table only for job_run_history', v_runs
            USING ERRCODE = '23514', HINT = 'cancel them with weaver tasks cancel';
    END IF;
    DELETE FROM weaver.departures d WHERE d.xid = NEW.xid;
    RETURN NULL;
END
$$;

-- An attempt is closed while its run still has it under way. STABLE for the same reason as above.
CREATE FUNCTION weaver.guard_attempts() RETURNS trigger LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM new_rows n LEFT JOIN LATERAL (SELECT * FROM weaver.job_runs r
            WHERE r.namespace = n.namespace AND r.id = n.run_id LIMIT 1) r ON true
        WHERE (r.attempt = n.attempt AND r.version = n.fence AND r.assigned_worker_id = n.assigned_worker_id
            AND r.lease_started_at IS NOT DISTINCT FROM n.started_at) IS NOT TRUE) THEN
        RAISE EXCEPTION 'INSERT into closed_attempts is refused: no run has this attempt under way'
            USING ERRCODE = '23514', HINT = 'attempts are closed by Weaver alone';
    END IF;
    RETURN NULL;
END
$$;

-- Removals that were not announced in `purges`.
CREATE FUNCTION weaver.guard_removals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_rows)
            AND NOT EXISTS (SELECT FROM weaver.purges p WHERE p.xid = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'DELETE of % is refused: only retention and explicit purges remove it', TG_TABLE_NAME
            USING ERRCODE = '23514', HINT = 'use weaver tasks purge, or first, in the same transaction: '
                'INSERT INTO weaver.purges (what) VALUES (''why'')';
    END IF;
    RETURN NULL;
END
$$;

-- Entries are numbered by their stream: one beyond its last number would make the next append fail.
CREATE FUNCTION weaver.guard_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM new_rows n LEFT JOIN weaver.streams s ON s.namespace = n.namespace AND s.name = n.name
            WHERE (n.seq BETWEEN 1 AND s.last_seq) IS NOT TRUE) THEN
        RAISE EXCEPTION 'INSERT into audit is refused: its stream did not number these entries'
            USING ERRCODE = '23514', HINT = 'the audit is written by Weaver alone';
    END IF;
    RETURN NULL;
END
$$;

-- A run under a unique key: the key is its own, or was free and now is.
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
            RAISE EXCEPTION 'there is a run with idempotency key % in namespace %', NEW.idempotency_key, NEW.namespace
                USING ERRCODE = '23505', HINT = 'use weaver.enqueue(), which answers with that run';
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
            RAISE EXCEPTION 'there is a run of % for % in namespace %', NEW.job_definition_id, NEW.scheduled_for,
                NEW.namespace USING ERRCODE = '23505', HINT = 'a schedule has one run per planned instant';
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- Live runs.
CREATE TRIGGER guard_insert BEFORE INSERT ON weaver.job_runs FOR EACH ROW
    WHEN ((
{entry_condition}) IS NOT TRUE)
    EXECUTE FUNCTION weaver.refuse_change('a run enters as PENDING at version 1, within the limits of its fields',
        'use weaver.enqueue()');
CREATE TRIGGER guard_unique AFTER INSERT ON weaver.job_runs FOR EACH ROW
    WHEN (NEW.idempotency_key IS NOT NULL OR NEW.job_definition_id IS NOT NULL AND NEW.scheduled_for IS NOT NULL)
    EXECUTE FUNCTION weaver.guard_unique();
CREATE TRIGGER guard_spec BEFORE UPDATE OF {fixed_columns} ON weaver.job_runs FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('what a run was enqueued with never changes',
        'cancel it and enqueue another');
-- A lease, the move that is made most often, is checked here; all others by the function.
CREATE TRIGGER guard_move AFTER UPDATE OF {version_columns} ON weaver.job_runs FOR EACH ROW
    WHEN (({lease_condition}) IS NOT TRUE) EXECUTE FUNCTION weaver.guard_move();
-- A statement that sets nothing but these renews leases, or is refused.
CREATE TRIGGER guard_renewal AFTER UPDATE OF {renewal_columns} ON weaver.job_runs FOR EACH ROW
    WHEN ((NEW.version <> OLD.version OR NEW.state = 'RUNNING' AND NEW.renewals = OLD.renewals + 1
        AND NEW.lease_expires_at IS NOT NULL) IS NOT TRUE) EXECUTE FUNCTION weaver.guard_move();
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.job_runs REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.guard_departures();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.job_runs FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('live runs are not thrown away', 'cancel them with weaver tasks cancel');

-- The balance between both tables.
CREATE TRIGGER guard_write BEFORE INSERT OR UPDATE OR DELETE ON weaver.departures FOR EACH ROW
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION weaver.refuse_change('it is written by triggers alone', 'nothing needs this');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.departures FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('it is written by triggers alone', 'nothing needs this');
CREATE CONSTRAINT TRIGGER guard_balance AFTER INSERT OR UPDATE ON weaver.departures
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION weaver.guard_balance();

-- History.
ALTER TABLE weaver.job_run_history ADD CONSTRAINT job_run_history_state CHECK (state IN ({terminal}));
CREATE TRIGGER guard_arrivals AFTER INSERT ON weaver.job_run_history REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_arrivals();
CREATE TRIGGER guard_update BEFORE UPDATE OF {history_columns} ON weaver.job_run_history FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('what has ended stays as it is',
        'run it again as a new task with weaver tasks retry');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.job_run_history REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_removals();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.job_run_history FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('finished runs are removed by retention', 'use weaver tasks purge');

-- Attempts that were closed.
CREATE TRIGGER guard_insert AFTER INSERT ON weaver.closed_attempts REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_attempts();
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.closed_attempts FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('an attempt that was closed stays as it is', 'nothing needs this');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.closed_attempts REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_removals();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.closed_attempts FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('attempts are removed with their run', 'use weaver tasks purge');

-- The audit.
CREATE TRIGGER guard_insert AFTER INSERT ON weaver.audit REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_audit();
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.audit FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the audit is only added to', 'nothing needs this');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.audit REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_removals();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.audit FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the audit is removed by retention alone', 'nothing needs this');

-- Unique keys, until their time is over: removed or turned over, they would let a second run in.
CREATE TRIGGER guard_update AFTER UPDATE ON weaver.schedule_keys FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.* AND OLD.until > weaver.clock())
    EXECUTE FUNCTION weaver.refuse_change('it stands for a run until its time is over', 'wait for it');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.schedule_keys FOR EACH ROW WHEN (OLD.until > weaver.clock())
    EXECUTE FUNCTION weaver.refuse_change('it stands for a run until its time is over', 'wait for it');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.schedule_keys FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('keys stand for runs until their time is over', 'wait for it');

-- What was purged, by whom: kept for 90 days.
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.purges FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('what was purged stays on record', 'nothing needs this');
CREATE TRIGGER guard_delete BEFORE DELETE ON weaver.purges FOR EACH ROW
    WHEN (OLD.at > clock_timestamp() - interval '90 days')
    EXECUTE FUNCTION weaver.refuse_change('what was purged stays on record for 90 days', 'wait for it');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.purges FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('what was purged stays on record for 90 days', 'wait for it');

-- Labels of finished runs are kept beside them (`tables.sql`). Runs without labels pay for a comparison; labels that are
-- none must not fail the statement that ends others too.
CREATE TRIGGER keep_labels AFTER INSERT ON weaver.job_run_history FOR EACH ROW
    WHEN (jsonb_typeof(NEW.labels) = 'object') EXECUTE FUNCTION weaver.keep_labels();
CREATE TRIGGER drop_labels AFTER DELETE ON weaver.job_run_history FOR EACH ROW
    WHEN (jsonb_typeof(OLD.labels) = 'object') EXECUTE FUNCTION weaver.drop_labels();
