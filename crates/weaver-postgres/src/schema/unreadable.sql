-- Runs that a node cannot read: released, shown as stored, deleted on request. Nothing here decodes a run's contents.

-- Releases runs that a lease call took and could not read, without charging an attempt (`lifecycle/release.rs`).
CREATE FUNCTION weaver.release(p_namespace text, p_token uuid, p_ids bigint[], p_format smallint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM weaver.retry(p_namespace, array_agg(m.id), array_agg(l.version::bigint), array_agg(coalesce(l.epoch, 0)),
        array_agg(p_token), array_agg(NULL::bigint), array_agg('released'::text), array_agg('released'::text), array_agg(0::bigint),
        array_agg(NULL::text), p_format)
    FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
    WHERE l.token = p_token AND l.namespace = p_namespace AND m.id = ANY (p_ids)
    HAVING count(*) > 0;
END
$$;

-- A run as stored; equal text for equal bytes, whatever the session's settings.
CREATE FUNCTION weaver.raw_run(p_namespace text, p_id bigint) RETURNS text LANGUAGE sql STABLE
    SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
    SELECT to_jsonb(r)::text FROM weaver.all_job_runs r WHERE r.namespace = p_namespace AND r.id = p_id
$$;

-- Deletes a live or finished run with its attempts and logs if it is still stored as `p_expected`. Its unique keys stay (G8).
-- Returns what happened, and the log files to be removed.
CREATE FUNCTION weaver.discard(p_namespace text, p_id bigint, p_expected text, OUT answer text, OUT log_refs text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_run weaver.all_job_runs;
BEGIN
    PERFORM weaver.lock_tasks(ARRAY[p_id]);
    PERFORM FROM weaver.ended e WHERE e.id = p_id FOR UPDATE;
    answer := CASE weaver.raw_run(p_namespace, p_id) = p_expected
        WHEN true THEN 'removed' WHEN false THEN 'changed' ELSE 'missing' END;
    IF answer <> 'removed' THEN
        RETURN;
    END IF;
    SELECT * INTO v_run FROM weaver.all_job_runs r WHERE r.id = p_id;
    INSERT INTO weaver.purges (what, live) VALUES (format('run %s/%s', p_namespace, p_id), true);
    log_refs := weaver.forget(v_run);
END
$$;

-- Deletes a task wherever it is, and takes it out of the counts.
CREATE FUNCTION weaver.forget(p_run weaver.all_job_runs) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    v_state smallint := weaver.task_state(p_run.state, p_run.scheduled);
BEGIN
    PERFORM weaver.take_out(p_run.id, p_run.version, false);
    DELETE FROM weaver.leases l WHERE l.first_id = p_run.id AND NOT l.is_shared;
    -- An invalid state was never counted.
    IF v_state IS NOT NULL THEN
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        VALUES (weaver.clock(), '{}', '{}', '{}', '{}', ARRAY[p_run.namespace], ARRAY[p_run.queue], ARRAY[v_state], ARRAY[-1]);
    END IF;
    RETURN weaver.remove_tasks(ARRAY[p_run.id]);
END
$$;
