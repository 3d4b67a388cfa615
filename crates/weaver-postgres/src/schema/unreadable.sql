-- Runs that a node cannot read: released, shown as stored, deleted on request. Nothing here decodes a run's contents.

-- Releases runs that a lease call took and could not read, without charging an attempt (`lifecycle/release.rs`).
CREATE FUNCTION weaver.release(p_namespace text, p_token uuid, p_ids bigint[], p_format smallint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM weaver.retry(p_namespace, array_agg(r.id), array_agg(r.version::bigint),
        array_agg(coalesce(r.leader_epoch, 0)), array_agg(NULL::bigint), array_agg('released'::text),
        array_agg('released'::text), array_agg(r.failures::integer), array_agg(r.losses::integer),
        array_agg(0::bigint), array_agg(NULL::text), p_format)
    FROM weaver.job_runs r
    WHERE r.lease_token = p_token AND r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.state = 'RUNNING'
    HAVING count(*) > 0;
END
$$;

-- A run as stored; equal text for equal bytes, whatever the session's settings.
CREATE FUNCTION weaver.raw_run(p_namespace text, p_id bigint) RETURNS text LANGUAGE sql STABLE
    SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
    SELECT to_jsonb(r)::text FROM weaver.job_runs r WHERE r.namespace = p_namespace AND r.id = p_id
    UNION ALL
    SELECT to_jsonb(r)::text FROM weaver.job_run_history r WHERE r.namespace = p_namespace AND r.id = p_id
$$;

-- Deletes a live or finished run with its attempts and logs if it is still stored as `p_expected`. Its unique keys stay (G8).
-- Returns what happened, and the log files to be removed.
CREATE FUNCTION weaver.discard(p_namespace text, p_id bigint, p_expected text, OUT answer text, OUT log_refs text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_queue text;
    v_state smallint;
BEGIN
    PERFORM FROM weaver.job_runs r WHERE r.namespace = p_namespace AND r.id = p_id FOR UPDATE;
    PERFORM FROM weaver.job_run_history r WHERE r.namespace = p_namespace AND r.id = p_id FOR UPDATE;
    answer := CASE weaver.raw_run(p_namespace, p_id) = p_expected
        WHEN true THEN 'removed' WHEN false THEN 'changed' ELSE 'missing' END;
    IF answer <> 'removed' THEN
        RETURN;
    END IF;
    -- Required by the guards (`guard_triggers.sql`).
    INSERT INTO weaver.purges (what, live) VALUES (format('run %s/%s', p_namespace, p_id), true);
    DELETE FROM weaver.job_runs r WHERE r.namespace = p_namespace AND r.id = p_id
    RETURNING r.queue, weaver.task_state(r.state, r.scheduled) INTO v_queue, v_state;
    IF NOT FOUND THEN
        DELETE FROM weaver.job_run_history r WHERE r.namespace = p_namespace AND r.id = p_id
        RETURNING r.queue, weaver.task_state(r.state, r.scheduled) INTO v_queue, v_state;
    END IF;
    DELETE FROM weaver.closed_attempts c WHERE c.namespace = p_namespace AND c.run_id = p_id;
    WITH streams AS (
        DELETE FROM weaver.streams s WHERE s.namespace = p_namespace AND s.run_id = p_id RETURNING s.name, s.log_ref
    ), logs AS (
        DELETE FROM weaver.job_run_logs l USING streams s WHERE l.namespace = p_namespace AND l.name = s.name
    )
    SELECT array_agg(log_ref) FILTER (WHERE log_ref IS NOT NULL) INTO log_refs FROM streams;
    -- An invalid state was never counted.
    IF v_state IS NOT NULL THEN
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        VALUES (weaver.clock(), '{}', '{}', '{}', '{}', ARRAY[p_namespace], ARRAY[v_queue], ARRAY[v_state], ARRAY[-1]);
    END IF;
END
$$;
