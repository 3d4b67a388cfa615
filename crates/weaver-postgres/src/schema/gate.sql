-- Admission of due runs: an open queue, a free slot, a free serial key. The conditions in braces are generated from core
-- (`admission.rs` here and in core, ADR-0067).

-- The occupied slots of a queue: what workers hold, cancellation holds included. Few tasks run at a time, so they are counted. A queue
-- that had no limit when its tasks were leased has shared rows, whose ended members occupy nothing.
CREATE FUNCTION weaver.occupied(p_namespace text, p_queue text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM weaver.leases l WHERE l.namespace = p_namespace AND l.queue = p_queue AND NOT l.is_shared)
        + (SELECT count(*) FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
            WHERE l.namespace = p_namespace AND l.queue = p_queue AND l.is_shared AND m.id <> ALL (l.gone)
                AND NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id));
END
$$;

-- Whether a queue is paused by its settings. An invalid limit counts as a pause; a queue without settings is open.
CREATE FUNCTION weaver.is_set_to_pause(p_paused boolean, p_max_running bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(p_paused, false) OR coalesce(p_max_running NOT BETWEEN 1 AND {limit_max}, false)
$$;

-- Whether another task of the serial key goes before this one: one that has begun, or that waits, is due and is older.
CREATE FUNCTION weaver.is_gated(p_namespace text, p_key text, p_id bigint, p_executions integer, p_now timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM weaver.leases k
        WHERE k.namespace = p_namespace AND k.serial_key = p_key AND k.first_id <> p_id
            AND {goes_first(k.first_id, {has_begun(false, false)}, false, p_id, NOT {is_unstarted(p_executions)})})
    OR EXISTS (
        SELECT FROM weaver.ready k
        WHERE k.namespace = p_namespace AND k.serial_key = p_key AND k.id <> p_id
            AND {goes_first(k.id, {has_begun({is_unstarted(k.executions)}, true)},
                {is_startable(k.ready_at, {is_unstarted(k.executions)}, p_now, k.expires_at)},
                p_id, NOT {is_unstarted(p_executions)})});
END
$$;

-- Takes the advisory lock of a serial key until the end of the transaction and then checks, in a new snapshot, whether the run
-- may start. Without the lock two runs of one key could start.
CREATE FUNCTION weaver.passes_gate(p_namespace text, p_key text, p_id bigint, p_executions integer, p_now timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('weaver.gate ' || p_namespace || E'\x01' || p_key, 11)) THEN
        RETURN false;
    END IF;
    RETURN NOT weaver.is_gated(p_namespace, p_key, p_id, p_executions, p_now);
END
$$;

-- Where waiting tasks of the wanted dispatch are: the parts of `ready` by queue and own dispatch. Few tasks have a dispatch of their
-- own, so the parts with it are usually empty.
CREATE FUNCTION weaver.sources(p_namespace text, p_queues text[], p_dispatch smallint)
RETURNS TABLE (queue text, own smallint) LANGUAGE sql STABLE AS $$
    SELECT q.name, d.own FROM (SELECT DISTINCT name FROM unnest(p_queues) AS q (name)) q
    LEFT JOIN weaver.queues s ON s.namespace = p_namespace AND s.queue = q.name
    CROSS JOIN {dispatches}
    WHERE {has_dispatch(d.own, coalesce(s.dispatch, {dispatch_default}), p_dispatch)}
        AND (d.own = 0 OR EXISTS (SELECT FROM weaver.ready r
            WHERE r.namespace = p_namespace AND r.queue = q.name AND r.dispatch = d.own))
$$;

-- The open ones of some queues; for those with a concurrency limit, the limit and the occupied slots. Limited queues are locked:
-- lease calls on them are serialized.
CREATE FUNCTION weaver.open_queues(p_namespace text, p_queues text[], p_dispatch smallint, OUT queues text[],
    OUT limited text[], OUT maxima bigint[], OUT occupied bigint[], OUT source_queues text[], OUT source_dispatches smallint[])
    LANGUAGE plpgsql AS $$
DECLARE
    v_at integer;
    v_is_paused boolean;
    v_max_running bigint;
BEGIN
    SELECT array_agg(q.name), array_agg(q.name ORDER BY q.name) FILTER (WHERE s.max_running IS NOT NULL)
    INTO queues, limited
    FROM unnest(p_queues) AS q (name)
    LEFT JOIN weaver.queues s ON s.namespace = p_namespace AND s.queue = q.name
    WHERE NOT {is_paused(weaver.is_set_to_pause(s.paused, s.max_running))};
    FOR v_at IN 1 .. coalesce(cardinality(limited), 0) LOOP
        -- Settings may have changed while this waited for the lock.
        SELECT {is_paused(weaver.is_set_to_pause(s.paused, s.max_running))}, s.max_running
        INTO v_is_paused, v_max_running
        FROM weaver.queues s WHERE s.namespace = p_namespace AND s.queue = limited[v_at] FOR NO KEY UPDATE;
        maxima[v_at] := v_max_running;
        IF v_is_paused THEN
            queues := array_remove(queues, limited[v_at]);
        END IF;
    END LOOP;
    SELECT array_agg(s.queue), array_agg(s.own) INTO source_queues, source_dispatches
    FROM weaver.sources(p_namespace, queues, p_dispatch) s;
    -- Counted after all locks are held.
    FOR v_at IN 1 .. coalesce(cardinality(limited), 0) LOOP
        occupied[v_at] := weaver.occupied(p_namespace, limited[v_at]);
        IF {is_full(occupied[v_at], maxima[v_at])} THEN
            queues := array_remove(queues, limited[v_at]);
        END IF;
    END LOOP;
END
$$;

-- The picked runs that may start together: within the slots of their queues and of the caller, and one per serial key. Also
-- returns which queues are open afterwards, their occupied slots and the slots that the caller has left.
CREATE FUNCTION weaver.gate(p_namespace text, p_picked weaver.picked, p_now timestamptz, p_limited text[], p_maxima bigint[],
    INOUT queues text[], INOUT occupied bigint[], INOUT slots integer, OUT passed weaver.picked) LANGUAGE plpgsql AS $$
DECLARE
    v_at integer;
    v_queue integer;
BEGIN
    passed := p_picked;
    passed.tids := NULL;
    passed.ids := NULL;
    passed.versions := NULL;
    passed.queues := NULL;
    passed.froms := NULL;
    FOR v_at IN 1 .. coalesce(cardinality(p_picked.ids), 0) LOOP
        CONTINUE WHEN NOT (p_picked.queues[v_at] = ANY (queues)) OR NOT {fits_slots(p_picked.fragile[v_at], slots)};
        CONTINUE WHEN p_picked.keys[v_at] IS NOT NULL AND NOT weaver.passes_gate(p_namespace, p_picked.keys[v_at],
            p_picked.ids[v_at], p_picked.executions[v_at], p_now);
        passed.tids := passed.tids || p_picked.tids[v_at];
        passed.ids := passed.ids || p_picked.ids[v_at];
        passed.versions := passed.versions || p_picked.versions[v_at];
        passed.queues := passed.queues || p_picked.queues[v_at];
        passed.froms := passed.froms || p_picked.froms[v_at];
        slots := slots - p_picked.fragile[v_at]::integer;
        v_queue := array_position(p_limited, p_picked.queues[v_at]);
        IF v_queue IS NOT NULL THEN
            occupied[v_queue] := occupied[v_queue] + 1;
            IF {is_full(occupied[v_queue], p_maxima[v_queue])} THEN
                queues := array_remove(queues, p_limited[v_queue]);
            END IF;
        END IF;
    END LOOP;
END
$$;
