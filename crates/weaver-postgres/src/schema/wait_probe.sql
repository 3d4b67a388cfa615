-- The probe of a waiting worker: whether a lease call would return anything, and if not, when the next run becomes due.
-- `ready_in_us` is NULL if no run waits for its due time.
CREATE FUNCTION weaver.wait_probe(p_namespace text, p_queues text[], p_types text[], p_fragile boolean,
    p_format smallint, p_skip bigint[], p_dispatch smallint, OUT ready boolean, OUT ready_in_us bigint) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_open text[];
BEGIN
    SELECT array_agg(q.name) INTO v_open
    FROM unnest(p_queues) AS q (name)
    LEFT JOIN weaver.queues s ON s.namespace = p_namespace AND s.queue = q.name
    WHERE {is_open(weaver.is_set_to_pause(s.paused, s.max_running), weaver.occupied(p_namespace, q.name), s.max_running)};
    ready := EXISTS (
        SELECT FROM weaver.sources(p_namespace, v_open, p_dispatch) AS q (name, own)
        CROSS JOIN generate_series(0, 9) AS p (number)
        CROSS JOIN LATERAL (
            SELECT FROM weaver.ready r
            WHERE r.namespace = p_namespace AND r.queue = q.name AND r.dispatch = q.own AND r.priority = p.number::smallint
                AND {wanted(p_fragile::integer)} AND {leasable(v_now)}
            ORDER BY r.ready_at, r.id
            LIMIT 1
        ) d);
    IF ready THEN
        RETURN;
    END IF;
    SELECT weaver.micros(min(d.ready_at)) - weaver.micros(v_now) INTO ready_in_us
    FROM weaver.sources(p_namespace, v_open, p_dispatch) AS q (name, own)
    CROSS JOIN generate_series(0, 9) AS p (number)
    CROSS JOIN LATERAL (
        SELECT r.ready_at FROM weaver.ready r
        WHERE r.namespace = p_namespace AND r.queue = q.name AND r.dispatch = q.own AND r.priority = p.number::smallint
            AND NOT {is_due(r.ready_at, v_now)}
            AND r.format BETWEEN 1 AND p_format AND (p_skip IS NULL OR r.id <> ALL (p_skip))
        ORDER BY r.ready_at, r.id
        LIMIT 1
    ) d;
END
$$;
