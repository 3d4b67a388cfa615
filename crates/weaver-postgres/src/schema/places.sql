-- Where a task is follows from the tables: ended, else leased, else ready; exactly one of them (ADR 0057).

-- The places of a task: one, unless its rows contradict each other. A cancelled lease beside an end is its hold, and the members of a
-- shared lease leave it by their end.
CREATE FUNCTION weaver.places(p_id bigint) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_ended boolean := EXISTS (SELECT FROM weaver.ended e WHERE e.id = p_id);
BEGIN
    RETURN ARRAY(
        SELECT 'ready' FROM weaver.ready w WHERE w.id = p_id
        UNION ALL SELECT 'ended' WHERE v_ended
        UNION ALL SELECT 'leases' FROM weaver.leases l WHERE l.first_id = p_id AND NOT l.is_shared
            AND NOT (v_ended AND l.state = {number(cancelled)})
        UNION ALL SELECT 'leases' FROM weaver.leases l WHERE l.is_shared AND NOT v_ended
            AND int8range(l.first_id, l.last_id, '[]') @> p_id AND p_id = ANY (l.ids) AND p_id <> ALL (l.gone));
END
$$;

-- At the commit of every transition: of a statement with many tasks, four. A row trigger on each table would look at all of them, and
-- cost more than the transition.
CREATE FUNCTION weaver.check_places() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_count integer := cardinality(NEW.ids);
    v_id bigint;
    v_places text[];
BEGIN
    FOR v_place IN 0 .. least(v_count, 4) - 1 LOOP
        v_id := NEW.ids[1 + v_place * v_count / least(v_count, 4)];
        v_places := weaver.places(v_id);
        -- A task that the same transaction has removed is in none.
        IF cardinality(v_places) <> 1 AND EXISTS (SELECT FROM weaver.tasks s WHERE s.id = v_id) THEN
            RAISE EXCEPTION 'task % would be in % of ready, leases and ended (%)', v_id,
                CASE cardinality(v_places) WHEN 0 THEN 'none' ELSE 'two' END, array_to_string(v_places, ', ')
                USING ERRCODE = '23514', HINT = 'this is a defect of Weaver, or a forged write: run weaver store check';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- Not for new tasks: their ids are fresh.
CREATE CONSTRAINT TRIGGER check_places AFTER INSERT ON weaver.moves DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (cardinality(NEW.ids) > 0 AND NEW.versions <> ARRAY[1])
    EXECUTE FUNCTION weaver.check_places();

-- Tasks that are in two places, or in one without a spec; at most `p_limit` of each kind. The members of a shared row may have been
-- purged after they ended.
CREATE FUNCTION weaver.misplaced(p_limit bigint) RETURNS TABLE (namespace text, id bigint, problem text) LANGUAGE sql STABLE AS $$
    (SELECT w.namespace, w.id, 'both waiting and ended' FROM weaver.ready w JOIN weaver.ended e ON e.id = w.id LIMIT p_limit)
    UNION ALL
    (SELECT w.namespace, w.id, 'both waiting and leased' FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
        JOIN weaver.ready w ON w.id = m.id WHERE m.id <> ALL (l.gone) LIMIT p_limit)
    UNION ALL
    (SELECT l.namespace, l.first_id, 'both leased and ended' FROM weaver.leases l JOIN weaver.ended e ON e.id = l.first_id
        WHERE NOT l.is_shared AND l.state <> {number(cancelled)} LIMIT p_limit)
    UNION ALL
    (SELECT min(l.namespace), m.id, 'in two leases' FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
        WHERE m.id <> ALL (l.gone) AND (NOT l.is_shared OR NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id))
        GROUP BY m.id HAVING count(*) > 1 LIMIT p_limit)
    UNION ALL
    (SELECT w.namespace, w.id, 'waiting without a row in tasks' FROM weaver.ready w
        WHERE NOT EXISTS (SELECT FROM weaver.tasks s WHERE s.id = w.id) LIMIT p_limit)
    UNION ALL
    (SELECT l.namespace, l.first_id, 'leased without a row in tasks' FROM weaver.leases l
        WHERE NOT l.is_shared AND NOT EXISTS (SELECT FROM weaver.tasks s WHERE s.id = l.first_id) LIMIT p_limit)
    UNION ALL
    (SELECT e.namespace, e.id, 'ended without a row in tasks' FROM weaver.ended e
        WHERE NOT EXISTS (SELECT FROM weaver.tasks s WHERE s.id = e.id) LIMIT p_limit)
$$;
