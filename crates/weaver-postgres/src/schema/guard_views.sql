-- Hand-written SQL on the views of the seed. A statement is conditional on what it read: the trigger locks the task and compares version
-- and state again, so that of two concurrent writers the second changes no row (seed 1.1). What core's tables do not allow is refused.

-- Raises unless core's tables allow the step from one row to the other.
CREATE FUNCTION weaver.check_move(o weaver.all_job_runs, n weaver.all_job_runs) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (
{update_condition}) THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'task %/%: transition from % at version % to % at version % with these columns is not allowed', o.namespace,
        o.id, o.state, o.version, n.state, n.version
        USING ERRCODE = '23514', HINT = 'use weaver tasks cancel or weaver tasks run-now';
END
$$;

-- Reserves the unique keys of a task inserted by hand, or raises.
CREATE FUNCTION weaver.reserve_keys(n weaver.all_job_runs) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_until timestamptz := weaver.later(v_now, {unique_us});
BEGIN
    IF n.idempotency_key IS NOT NULL THEN
        INSERT INTO weaver.idempotency_keys AS k VALUES (n.namespace, n.idempotency_key, n.id, v_until)
        ON CONFLICT (namespace, idempotency_key) DO UPDATE SET run_id = n.id, until = v_until WHERE k.until <= v_now;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a task with idempotency key % exists in namespace %', n.idempotency_key, n.namespace
                USING ERRCODE = '23505', HINT = 'use weaver.enqueue(), which returns the id of that task';
        END IF;
    END IF;
    IF n.job_definition_id IS NOT NULL AND n.scheduled_for IS NOT NULL THEN
        INSERT INTO weaver.schedule_keys AS k VALUES (n.namespace, n.job_definition_id, n.scheduled_for, n.id, v_until)
        ON CONFLICT (namespace, job_definition_id, scheduled_for) DO UPDATE SET run_id = n.id, until = v_until
        WHERE k.until <= v_now;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'schedule % already has a task for % in namespace %', n.job_definition_id, n.scheduled_for, n.namespace
                USING ERRCODE = '23505', HINT = 'a schedule creates one task per planned instant';
        END IF;
    END IF;
END
$$;

CREATE FUNCTION weaver.insert_by_hand() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_state smallint := {waiting_number(NEW.scheduled)};
    v_new weaver.all_job_runs;
BEGIN
    NEW.format := coalesce(NEW.format, 1);
    IF (
{entry_condition}) IS NOT TRUE THEN
        RAISE EXCEPTION 'INSERT of job_runs is refused: a new task is PENDING at version 1, with fields within their limits'
            USING ERRCODE = '23514', HINT = 'use weaver.enqueue()';
    END IF;
    v_new := NEW;
    PERFORM weaver.reserve_keys(v_new);
    INSERT INTO weaver.tasks (id, created_at, run_at, max_attempts, max_losses, priority, format, namespace, queue, task_type, payload,
        content_type, retry, timeout_us, expires_at, serial_key, idempotency_key, task_group_id, session_id, labels,
        job_definition_id, scheduled_for, retry_of, trace, dispatch)
    VALUES (NEW.id, NEW.created_at, CASE WHEN NEW.scheduled THEN NEW.ready_at END, NEW.max_attempts, NEW.max_losses, NEW.priority,
        NEW.format, NEW.namespace, NEW.queue, NEW.task_type, NEW.payload, NEW.content_type, NEW.retry, NEW.timeout_us,
        NEW.expires_at, NEW.serial_key, NEW.idempotency_key, NEW.task_group_id, NEW.session_id, NEW.labels,
        NEW.job_definition_id, NEW.scheduled_for, NEW.retry_of, NEW.trace, NEW.dispatch);
    PERFORM weaver.put_in(v_new);
    IF jsonb_typeof(NEW.labels) = 'object' THEN
        INSERT INTO weaver.task_labels
        SELECT NEW.namespace, weaver.label(k.key, k.value), NEW.id FROM jsonb_each_text(NEW.labels) k WHERE k.value IS NOT NULL;
    END IF;
    INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states, count_deltas)
    VALUES (NEW.created_at, ARRAY[NEW.id], ARRAY[NEW.namespace], ARRAY[1], ARRAY[v_state], ARRAY[NEW.namespace], ARRAY[NEW.queue],
        ARRAY[v_state], ARRAY[1]);
    RETURN NEW;
END
$$;

CREATE FUNCTION weaver.update_by_hand() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_old weaver.all_job_runs := OLD;
    v_new weaver.all_job_runs := NEW;
BEGIN
    IF ({fixed_columns_of(NEW)}) IS DISTINCT FROM ({fixed_columns_of(OLD)}) THEN
        RAISE EXCEPTION 'UPDATE of job_runs is refused: the fields a task was enqueued with are immutable'
            USING ERRCODE = '23514', HINT = 'cancel it and enqueue another';
    END IF;
    PERFORM weaver.lock_tasks(ARRAY[OLD.id]);
    PERFORM FROM weaver.all_job_runs r WHERE r.id = OLD.id AND r.version = OLD.version AND r.state = OLD.state
        AND r.renewals = OLD.renewals;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM weaver.check_move(v_old, v_new);
    IF NEW.version > OLD.version THEN
        IF weaver.move_task(v_old, v_new) THEN
            RETURN NEW;
        END IF;
        RETURN NULL;
    END IF;
    -- A renewal, or the end of a cancellation hold.
    IF NEW.lease_token IS NULL AND OLD.lease_token IS NOT NULL THEN
        DELETE FROM weaver.leases l WHERE l.first_id = OLD.id AND NOT l.is_shared;
        RETURN NEW;
    END IF;
    PERFORM weaver.split_off(OLD.id, OLD.lease_token);
    UPDATE weaver.leases l SET renewals = NEW.renewals, expires_at = NEW.lease_expires_at,
        check_deadline_at = NEW.continuation_check_deadline_at
    WHERE l.first_id = OLD.id AND NOT l.is_shared;
    IF NEW.progress_fraction IS NOT NULL THEN
        INSERT INTO weaver.progress AS p (id, fraction, message)
        VALUES (NEW.id, NEW.progress_fraction, coalesce(NEW.progress_message, ''))
        ON CONFLICT (id) DO UPDATE SET fraction = excluded.fraction, message = excluded.message;
    END IF;
    RETURN NEW;
END
$$;

-- Deletes finished tasks, and live ones, if the same transaction recorded it in `purges`.
CREATE FUNCTION weaver.delete_by_hand() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_old weaver.all_job_runs := OLD;
BEGIN
    IF NOT EXISTS (SELECT FROM weaver.purges p WHERE p.xid = pg_current_xact_id() AND (p.live OR OLD.finished_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'DELETE of % is refused: only retention and recorded purges delete tasks', TG_TABLE_NAME
            USING ERRCODE = '23514', HINT = 'cancel it with weaver tasks cancel; finished tasks: weaver tasks purge, or first, in the '
                'same transaction: INSERT INTO weaver.purges (what) VALUES (''why'')';
    END IF;
    PERFORM weaver.lock_tasks(ARRAY[OLD.id]);
    PERFORM weaver.forget(v_old);
    RETURN OLD;
END
$$;

CREATE FUNCTION weaver.refuse_by_hand() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: finished tasks are immutable', TG_OP, TG_TABLE_NAME
        USING ERRCODE = '23514', HINT = 'retry it as a new task with weaver tasks retry';
END
$$;

CREATE TRIGGER insert_by_hand INSTEAD OF INSERT ON weaver.job_runs FOR EACH ROW EXECUTE FUNCTION weaver.insert_by_hand();
CREATE TRIGGER update_by_hand INSTEAD OF UPDATE ON weaver.job_runs FOR EACH ROW EXECUTE FUNCTION weaver.update_by_hand();
CREATE TRIGGER delete_by_hand INSTEAD OF DELETE ON weaver.job_runs FOR EACH ROW EXECUTE FUNCTION weaver.delete_by_hand();
CREATE TRIGGER refuse_by_hand INSTEAD OF INSERT OR UPDATE ON weaver.job_run_history
    FOR EACH ROW EXECUTE FUNCTION weaver.refuse_by_hand();
CREATE TRIGGER delete_by_hand INSTEAD OF DELETE ON weaver.job_run_history FOR EACH ROW EXECUTE FUNCTION weaver.delete_by_hand();
