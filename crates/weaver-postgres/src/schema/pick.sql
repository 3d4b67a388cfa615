-- Picking: the next tasks in the order of G7, locked with SKIP LOCKED. Called by `weaver.claim` and planned under its settings. Rows of
-- `ready` are never updated, so a locked row keeps its ctid until the same transaction deletes it.

-- Picked tasks, with their new versions and old states. `last_…` is the position in the order up to which everything was scanned;
-- `is_special`: one of them is fragile or has a serial key; `is_cut`: there may be more after them.
CREATE TYPE weaver.picked AS (tids tid[], ids bigint[], versions integer[], queues text[], froms integer[], keys text[],
    fragile boolean[], executions integer[], is_special boolean, last_priority integer, last_ready_at timestamptz,
    last_id bigint, is_cut boolean);

CREATE FUNCTION weaver.pick_from_one(p_namespace text, p_queue text, p_own smallint, p_types text[], p_slots integer,
    p_format smallint, p_skip bigint[], p_now timestamptz, p_max integer, p_priority integer, p_ready_at timestamptz, p_id bigint)
RETURNS weaver.picked LANGUAGE plpgsql AS $$
DECLARE
    v_picked weaver.picked;
BEGIN
    SELECT array_agg(c.tid), array_agg(c.id), array_agg(c.version), array_fill(p_queue, ARRAY[count(*)::integer]),
        array_agg(c.from_state), array_agg(c.serial_key), array_agg(c.fragile), array_agg(c.executions),
        bool_or(c.serial_key IS NOT NULL OR c.fragile), (array_agg(c.priority))[count(*)],
        (array_agg(c.ready_at))[count(*)], (array_agg(c.id))[count(*)], count(*) = p_max
    INTO v_picked
    FROM (
        SELECT d.* FROM generate_series(p_priority, 9) AS p (number)
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.id, r.version + 1 AS version, r.state::integer AS from_state, r.priority, r.ready_at,
                r.serial_key, r.executions, {is_fragile(r.losses, r.max_losses)} AS fragile
            FROM weaver.ready r
            WHERE r.namespace = p_namespace AND r.queue = p_queue AND r.dispatch = p_own AND r.priority = p.number::smallint
                AND (p.number > p_priority OR (r.ready_at, r.id) > (p_ready_at, p_id))
                AND {wanted(p_slots)} AND {leasable(p_now)}
            ORDER BY r.ready_at, r.id
            LIMIT p_max
            FOR UPDATE OF r SKIP LOCKED
        ) d
        LIMIT p_max
    ) c;
    RETURN v_picked;
END
$$;

-- The next tasks of several sources together, of those queues that are still open: chosen first, then locked.
CREATE FUNCTION weaver.pick_from_several(p_namespace text, p_queues text[], p_source_queues text[],
    p_source_dispatches smallint[], p_types text[], p_slots integer, p_format smallint, p_skip bigint[], p_now timestamptz,
    p_max integer, p_priority integer, p_ready_at timestamptz, p_id bigint) RETURNS weaver.picked LANGUAGE plpgsql AS $$
DECLARE
    v_window bigint[];
    v_picked weaver.picked;
BEGIN
    SELECT array_agg(c.id), (array_agg(c.priority))[count(*)], (array_agg(c.ready_at))[count(*)],
        (array_agg(c.id))[count(*)], count(*) = p_max
    INTO v_window, v_picked.last_priority, v_picked.last_ready_at, v_picked.last_id, v_picked.is_cut
    FROM (
        SELECT m.* FROM generate_series(p_priority, 9) AS p (number)
        CROSS JOIN LATERAL (
            SELECT d.* FROM unnest(p_source_queues, p_source_dispatches) AS q (name, own)
            CROSS JOIN LATERAL (
                SELECT r.id, r.priority, r.ready_at
                FROM weaver.ready r
                WHERE r.namespace = p_namespace AND r.queue = q.name AND r.dispatch = q.own AND r.priority = p.number::smallint
                    AND (p.number > p_priority OR (r.ready_at, r.id) > (p_ready_at, p_id))
                    AND {wanted(p_slots)} AND {leasable(p_now)}
                ORDER BY r.ready_at, r.id
                LIMIT p_max
            ) d
            WHERE q.name = ANY (p_queues)
            ORDER BY d.ready_at, d.id
            LIMIT p_max
        ) m
        LIMIT p_max
    ) c;
    SELECT array_agg(c.tid), array_agg(c.id), array_agg(c.version), array_agg(c.queue), array_agg(c.from_state),
        array_agg(c.serial_key), array_agg(c.fragile), array_agg(c.executions),
        bool_or(c.serial_key IS NOT NULL OR c.fragile)
    INTO v_picked.tids, v_picked.ids, v_picked.versions, v_picked.queues, v_picked.froms, v_picked.keys,
        v_picked.fragile, v_picked.executions, v_picked.is_special
    FROM (
        SELECT r.ctid AS tid, r.id, r.version + 1 AS version, r.queue, r.state::integer AS from_state, r.serial_key, r.executions,
            {is_fragile(r.losses, r.max_losses)} AS fragile
        FROM unnest(v_window) WITH ORDINALITY AS i (id, place)
        JOIN weaver.ready r ON r.id = i.id
        -- It may have been retried or made due since it was chosen.
        WHERE {is_startable(r.ready_at, {is_unstarted(r.executions)}, p_now, r.expires_at)}
        ORDER BY i.place
        FOR UPDATE OF r SKIP LOCKED
    ) c;
    RETURN v_picked;
END
$$;
