-- Leases the next job to a worker, and removes the wake-up that it used. Answers "again" after as many expired jobs as one
-- call may end.
local queue = args.queue
local answered = root .. 'claim:' .. args.call
local pending, rings = queue_key(queue, 'pending'), queue_key(queue, 'rings')

local function choose()
    local circuits = args.circuits or all_circuits(queue)
    local turn, group
    for _, circuit in ipairs(circuits) do
        local member = first(rings, circuit)
        if member then
            local its_turn, its_group = string.match(member, '^[^|]*|([^|]*)|(.*)$')
            if not turn or its_turn < turn then turn, group = its_turn, its_group end
        end
    end
    if not turn then return nil end
    local rank, chosen
    for _, circuit in ipairs(args.circuits or circuits_of(queue, group)) do
        local member = first(pending, group .. '|' .. circuit)
        if member then
            local its_rank, id = string.match(member, '^[^|]*|[^|]*|([^|]*|[^|]*)|(.*)$')
            if not rank or its_rank < rank then rank, chosen = its_rank, {id = id, member = member} end
        end
    end
    return chosen
end

local function missing_wake_ups() return call('ZCARD', pending) - call('ZCARD', root .. queue) end

-- Other workers may be able to prove the jobs that this one cannot: one is woken after a second, at most once a second.
-- arq removes the wake-up of this claim.
local function wake_another_worker()
    local used = args.wake_up ~= '' and 1 or 0
    if missing_wake_ups() + used > 0 and call('SET', queue_key(queue, 'passed_on'), '1', 'NX', 'PX', 1000) then
        add_wake_up(queue, 1000)
    end
end

local function use_wake_up()
    if args.wake_up ~= '' then remove_wake_up(queue, args.wake_up) else trim_wake_ups(queue, 0) end
    for _ = 1, math.min(missing_wake_ups(), 16) do add_wake_up(queue) end
end

local function body_of(id)
    local length = value_of(redis.pcall('STRLEN', body_key(id)))
    return length and length <= args.longest_body and call('GET', body_key(id))
end

local function granted(id, job, body)
    local packed = reply({
        outcome = 'job', id = id, fence = job.fence, type = job.type, circuit = job.circuit, tree = job.tree,
        index = job.index, attempt = job.attempt, created = job.created, waited = now - job.queued
    })
    return {packed, body}
end

local function take(id, job, body)
    dequeue(id, job, true)
    local key = job_key(id)
    job.fence = call('HINCRBY', key, 'fence', 1)
    job.attempt = call('HINCRBY', key, 'attempt', 1)
    call('HSET', key, 'state', 'processing', 'started', now, 'owner', args.owner, 'lease', args.lease_ms)
    call('ZADD', queue_key(queue, 'leases'), now + args.lease_ms, id)
    call('ZADD', queue_key(queue, 'running'), now, id)
    call('SET', answered, string.format('%d', job.fence) .. '|' .. id, 'PX', args.lease_ms)
    use_wake_up()
    announce(id)
    report('claimed', id, job, '', now - job.queued)
    return granted(id, job, body)
end

-- A repeated call: its reply was lost.
local fence, claimed = string.match(call('GET', answered) or '', '^(%d+)|(.*)$')
if claimed then
    local job = held(claimed, tonumber(fence))
    if job then return granted(claimed, job, body_of(claimed) or '') end
end

for _ = 1, 200 do
    local chosen = choose()
    if not chosen then
        wake_another_worker()
        return {reply({outcome = 'none'}), ''}
    end
    local id = chosen.id
    local job = read(id)
    if job and not (job.queued and job.size and job.created and job.attempt and job.fence) then job = nil end
    local body = job and body_of(id)
    if not job then
        local group, circuit, rank = string.match(chosen.member, '^([^|]*)|([^|]*)|([^|]*|[^|]*)|')
        dequeue(id, {queue = queue, group = group, circuit = circuit, rank = rank, label = 'unknown'}, false)
        call('DEL', body_key(id))
    elseif now - job.queued >= args.max_wait_ms then
        expire(id, job, args.max_wait_ms)
    elseif not body then
        dequeue(id, job, false)
        settle_failed(id, job, 'failed', 'the body of this job was lost; submit it again')
    else
        return take(id, job, body)
    end
end
return {reply({outcome = 'again'}), ''}
