-- Audit entries of enqueues, written in their transaction (ADR 0056). They have no number yet: a stream's row is locked until the
-- commit of what numbers its entries, so that the enqueues of a namespace would commit one after the other.

CREATE FUNCTION weaver.audit_enqueue(p_ids bigint[], p_namespaces text[], p_before text, p_after text) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    -- A negative id is that of a task which existed. One namespace stands for all.
    INSERT INTO weaver.pending_audit (namespace, at, body)
    SELECT n.namespace, weaver.clock(),
        convert_to(p_before || concat_ws(',', count(*), min(i.id), max(i.id)) || p_after, 'UTF8')
    FROM unnest(p_ids) WITH ORDINALITY AS i (id, place)
    CROSS JOIN LATERAL (SELECT p_namespaces[CASE cardinality(p_namespaces) WHEN 1 THEN 1 ELSE i.place END] AS namespace) n
    WHERE i.id > 0
    GROUP BY 1;
END
$$;

-- Moves the pending entries of a namespace to its stream. Whatever reads, trims or appends to the stream calls it first, and maintenance
-- calls it for all.
CREATE FUNCTION weaver.number_audit(p_namespace text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_last bigint;
    v_ats timestamptz[];
    v_bodies bytea[];
BEGIN
    IF NOT EXISTS (SELECT FROM weaver.pending_audit p WHERE p.namespace = p_namespace) THEN
        RETURN;
    END IF;
    INSERT INTO weaver.streams AS s (namespace, name, last_seq) VALUES (p_namespace, 'audit', 0)
    ON CONFLICT (namespace, name) DO UPDATE SET last_seq = s.last_seq RETURNING s.last_seq INTO v_last;
    -- Only now: what a concurrent call has numbered before this one got the lock is no longer there.
    WITH taken AS (DELETE FROM weaver.pending_audit p WHERE p.namespace = p_namespace RETURNING p.place, p.at, p.body)
    SELECT array_agg(t.at ORDER BY t.place), array_agg(t.body ORDER BY t.place) INTO v_ats, v_bodies FROM taken t;
    IF v_bodies IS NULL THEN
        RETURN;
    END IF;
    UPDATE weaver.streams s SET last_seq = v_last + cardinality(v_bodies) WHERE s.namespace = p_namespace AND s.name = 'audit';
    INSERT INTO weaver.audit (namespace, name, seq, at, body)
    SELECT p_namespace, 'audit', v_last + i.place, i.at, i.body FROM unnest(v_ats, v_bodies) WITH ORDINALITY AS i (at, body, place);
END
$$;
