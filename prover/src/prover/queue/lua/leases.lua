-- Precedes every script. KEYS[1] is the prefix of all names, ARGV[1] the named arguments as msgpack.
--
-- A circuit queue has: its waiting jobs as "group|circuit|rank|job" in one sorted set without scores (`pending`); its
-- groups in round-robin order as "circuit|turn|group" (`rings`), with the sequence number of each group's turn
-- (`turns`); and its running jobs by the end of their lease (`leases`) and by their start (`running`). A group is a
-- tree, or "-" for all jobs without one. A rank is the batch index, then the order of submission. Times are in
-- milliseconds of this server. Events and statistics name the circuit queue `lane`.
--
-- A record has the queue of its circuit as `lane`, and that of its network, if it has one, as `queue`. Releases without
-- networks share the Redis during an update: they read such a record as one of the queue of the circuit, which they know.

local call = redis.call
local root = KEYS[1]
local args = cmsgpack.unpack(ARGV[1])
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local events = {}

local QUEUES = {}
for _, network in ipairs({'', 'mainnet_', 'devnet_'}) do
    for _, circuit in ipairs({'update_', 'append_', 'address_append_'}) do
        QUEUES[#QUEUES + 1] = 'zk_' .. circuit .. network .. 'queue'
    end
end
local DAY = 86400000
local WAKE_UPS_TO_SPARE = 64
local SHORTEST_OUTAGE = 700 -- most of the shortest lease
local JOB_FIELDS = {
    'state', 'lane', 'type', 'label', 'circuit', 'tree', 'index', 'group', 'rank', 'digest', 'size', 'created', 'queued',
    'started', 'attempt', 'fence', 'cancel', 'queue', 'lease'
}

local function job_key(id) return root .. 'job:' .. id end
local function body_key(id) return root .. 'body:' .. id end
local function digest_key(digest) return root .. 'digest:' .. digest end
local function queue_key(queue, name) return root .. queue .. ':' .. name end
local function sequence() return call('INCR', root .. 'sequence') end

local function report(kind, id, job, detail, waited)
    events[#events + 1] = {
        kind = kind, job_id = id, queue = job.queue, circuit_type = job.type, detail = detail or '',
        waited_s = waited and waited / 1000
    }
end

-- A user without the right to publish only makes waiting clients poll; an error would end the script half-way.
local function announce(id) redis.pcall('PUBLISH', root .. 'events', id) end

-- Whether an instance can have written a record: of a live job it needs all of this.
local function is_whole(job)
    if not job.digest then return false end
    if job.state ~= 'queued' and job.state ~= 'processing' then return true end
    for _, name in ipairs({
        'type', 'label', 'circuit', 'tree', 'index', 'group', 'rank', 'size', 'created', 'queued', 'attempt', 'fence'
    }) do
        if not job[name] then return false end
    end
    for _, queue in ipairs(QUEUES) do
        if job.queue == queue then return true end
    end
    return false
end

local function natural(text)
    return text and #text <= 15 and string.match(text, '^%d+$') and tonumber(text) or nil
end

local function discard(id)
    call('DEL', job_key(id), body_key(id))
    report('removed', string.sub(id, 1, 64), {queue = QUEUES[1], type = ''}, 'malformed')
    announce(id)
end

-- A result of pcall; nil for a key of a type that no instance can have given it. Raises other errors.
local function value_of(result)
    if type(result) ~= 'table' or not result.err then return result end
    if not string.find(result.err, 'WRONGTYPE', 1, true) then error(result.err) end
    return nil
end

-- The fields of a job; nil when there is none, or none that an instance can have written: it is removed.
local function read(id)
    local values = value_of(redis.pcall('HMGET', job_key(id), unpack(JOB_FIELDS)))
    if not values then return discard(id) end
    if not values[1] then return nil end
    local job = {}
    for position, name in ipairs(JOB_FIELDS) do job[name] = values[position] end
    job.queue = job.queue or job.lane
    for _, name in ipairs({'size', 'created', 'queued', 'attempt', 'fence', 'lease'}) do job[name] = natural(job[name]) end
    if not is_whole(job) then return discard(id) end
    return job
end

-- Wake-ups: entries of arq's sorted set, each with its arq job. A claim removes one, so there should be one per waiting
-- job. arq ignores a score of 0 and one in the future by its own clock; a sequence number is always in the past.

local function add_wake_up(queue, later_ms)
    local number = sequence()
    local id = root .. queue .. ':' .. string.format('%d', number)
    local job = cjson.encode({t = 1, f = args.wake_up_function, a = {queue}, k = {}, et = now})
    call('SET', 'arq:job:' .. id, job, 'PX', DAY)
    if later_ms then call('SET', 'arq:in-progress:' .. id, '1', 'PX', later_ms) end -- nobody takes it meanwhile
    call('ZADD', root .. queue, number, id)
end

local function remove_wake_up(queue, id)
    call('ZREM', root .. queue, id)
    call('DEL', 'arq:job:' .. id, 'arq:retry:' .. id)
end

-- Jobs that end unclaimed, or are claimed without a wake-up, leave their wake-ups behind.
local function trim_wake_ups(queue, spare)
    if call('ZCARD', root .. queue) <= call('ZCARD', queue_key(queue, 'pending')) + spare then return end
    local last = call('ZRANGE', root .. queue, -1, -1)[1]
    if call('EXISTS', 'arq:in-progress:' .. last) == 0 then remove_wake_up(queue, last) end
end

-- Waiting jobs.

local function first(key, prefix)
    return call('ZRANGEBYLEX', key, '[' .. prefix .. '|', '(' .. prefix .. '}', 'LIMIT', 0, 1)[1]
end

-- Distinct second-to-last words under a prefix: what follows `before` up to the next "|", in order.
local function words(key, before, last)
    local found, from = {}, '[' .. before
    while true do
        local member = call('ZRANGEBYLEX', key, from, last, 'LIMIT', 0, 1)[1]
        if not member then return found end
        local word = string.match(member, '^[^|]*', #before + 1)
        found[#found + 1] = word
        from = '(' .. before .. word .. '}'
    end
end

local function all_circuits(queue) return words(queue_key(queue, 'rings'), '', '+') end

local function circuits_of(queue, group)
    return words(queue_key(queue, 'pending'), group .. '|', '(' .. group .. '}')
end

local function pending_member(job, id) return job.group .. '|' .. job.circuit .. '|' .. job.rank .. '|' .. id end

local function enqueue(id, job)
    local queue = job.queue
    call('ZADD', queue_key(queue, 'pending'), 0, pending_member(job, id))
    call('ZADD', queue_key(queue, 'waiting'), job.queued, id)
    call('HINCRBY', queue_key(queue, 'types'), job.label, 1)
    local turn = call('HGET', queue_key(queue, 'turns'), job.group)
    if not turn then
        turn = string.format('%016d', sequence())
        call('HSET', queue_key(queue, 'turns'), job.group, turn)
    end
    call('ZADD', queue_key(queue, 'rings'), 0, job.circuit .. '|' .. turn .. '|' .. job.group)
end

-- Removes a job from the waiting ones. `served` sends its group to the end of the ring.
local function dequeue(id, job, served)
    local queue, group = job.queue, job.group
    call('ZREM', queue_key(queue, 'pending'), pending_member(job, id))
    call('ZREM', queue_key(queue, 'waiting'), id)
    if call('HINCRBY', queue_key(queue, 'types'), job.label, -1) <= 0 then
        call('HDEL', queue_key(queue, 'types'), job.label)
    end
    local rings, turns = queue_key(queue, 'rings'), queue_key(queue, 'turns')
    local turn = call('HGET', turns, group)
    if not turn then return end
    local left = circuits_of(queue, group)
    if #left == 0 then
        call('HDEL', turns, group)
        call('ZREM', rings, job.circuit .. '|' .. turn .. '|' .. group)
    elseif served then
        local new = string.format('%016d', sequence())
        call('ZREM', rings, job.circuit .. '|' .. turn .. '|' .. group)
        for _, circuit in ipairs(left) do
            call('ZREM', rings, circuit .. '|' .. turn .. '|' .. group)
            call('ZADD', rings, 0, circuit .. '|' .. new .. '|' .. group)
        end
        call('HSET', turns, group, new)
    elseif not first(queue_key(queue, 'pending'), group .. '|' .. job.circuit) then
        call('ZREM', rings, job.circuit .. '|' .. turn .. '|' .. group)
    end
end

-- Ends of jobs.

local function release(id, job)
    call('ZREM', queue_key(job.queue, 'leases'), id)
    call('ZREM', queue_key(job.queue, 'running'), id)
end

local function job_of_digest(digest) return value_of(redis.pcall('GET', digest_key(digest))) end

local function forget_digest(id, job)
    if job_of_digest(job.digest) == id then call('DEL', digest_key(job.digest)) end
end

-- Removes a final job and its entry in an index.
local function remove_final(index, id)
    local job = read(id)
    if job then
        forget_digest(id, job)
        call('DEL', job_key(id))
    end
    call('ZREM', index, id)
end

-- A bound on memory for clients that submit and cancel all day: the oldest failures are removed early.
local function trim_failures()
    local surplus = call('ZCARD', root .. 'failed') - args.kept_failures
    if surplus < 1 then return end
    for _, id in ipairs(call('ZRANGE', root .. 'failed', 0, math.min(surplus, 100) - 1)) do
        remove_final(root .. 'failed', id)
    end
end

-- Makes a job final that neither waits nor runs any more; it expires `keep` milliseconds later.
local function settle(id, job, state, keep, remember, ...)
    local key = job_key(id)
    announce(id)
    call('HDEL', key, 'label', 'circuit', 'tree', 'index', 'group', 'rank', 'size', 'queued', 'owner', 'lease')
    call('HSET', key, 'state', state, 'ended', now, ...)
    call('PEXPIRE', key, keep)
    call('DEL', body_key(id))
    call('DECRBY', queue_key(job.queue, 'bytes'), job.size)
    call('ZADD', root .. (state == 'completed' and 'results' or 'failed'), now, id)
    if state == 'failed' then trim_failures() end
    if not remember then
        forget_digest(id, job)
    elseif job_of_digest(job.digest) == id then
        call('PEXPIRE', digest_key(job.digest), keep)
    end
end

local function settle_failed(id, job, kind, error)
    settle(id, job, 'failed', args.failure_ms, false, 'error', error)
    report(kind, id, job, error)
end

-- A duration as Go prints it: 10m0s, 1.5s, 300ms.
local function duration(ms)
    if ms < 1000 then return string.format('%dms', ms) end
    local text = string.gsub(string.format('%.3f', (ms % 60000) / 1000), '%.?0+$', '')
    text = text .. 's'
    local minutes = math.floor(ms / 60000)
    if minutes > 0 then text = string.format('%dm', minutes % 60) .. text end
    if minutes >= 60 then text = string.format('%dh', math.floor(minutes / 60)) .. text end
    return text
end

local function expire(id, job, limit)
    local waited = now - job.queued
    local error = 'job expired after ' .. duration(waited) .. ' (max: ' .. duration(limit) .. ')'
    dequeue(id, job, false)
    settle(id, job, 'failed', args.failure_ms, false, 'error', error)
    report('expired', id, job, error, waited)
    trim_wake_ups(job.queue, WAKE_UPS_TO_SPARE)
end

-- Ends the jobs that wait for longer than a limit, and removes entries without a waiting job; returns the number of jobs.
local function expire_older(queue, limit)
    local ended = 0
    for _, id in ipairs(call('ZRANGEBYSCORE', queue_key(queue, 'waiting'), '-inf', now - limit, 'LIMIT', 0, 200)) do
        local job = read(id)
        if job and job.state == 'queued' then
            expire(id, job, limit)
            ended = ended + 1
        else
            call('ZREM', queue_key(queue, 'waiting'), id)
        end
    end
    return ended
end

-- Running jobs.

-- Returns the job of a claim twice if its lease holds; otherwise nil and the job as it is now.
local function held(id, fence)
    local job = read(id)
    if job and job.state == 'processing' and job.fence == fence then return job, job end
    return nil, job
end

-- Ends an attempt without a result: the job waits again, since now or since `queued`, or fails if it may not.
local function give_back(id, job, kind, reason, queued)
    release(id, job)
    if job.cancel then
        settle_failed(id, job, 'cancelled', 'cancelled')
    elseif job.attempt >= args.attempts then
        settle_failed(id, job, 'quarantined', 'gave up after ' .. job.attempt .. ' attempts: ' .. reason)
    else
        job.queued = queued or now
        call('HSET', job_key(id), 'state', 'queued', 'queued', job.queued)
        call('HDEL', job_key(id), 'started', 'owner', 'lease')
        enqueue(id, job)
        add_wake_up(job.queue)
        announce(id)
        report(kind, id, job, reason)
    end
end

-- Writes without the append-only file and replicas, so that the signs of life that instances send every few seconds
-- wait for no disk. After a restart or a failover the value is missing or as old as the last snapshot; its readers
-- expect that. A server that cannot do this writes it like any other.
local function write_unreplicated(...)
    pcall(redis.set_repl, redis.REPL_NONE)
    call(...)
    pcall(redis.set_repl, redis.REPL_ALL)
end

-- When its memory is full, Redis refuses writes that need memory to scripts that have not written yet. Scripts that
-- only keep or free records need almost none, so they begin with a write that needs none.
local function allow_when_full() call('DEL', root .. 'nothing') end

-- If no sign of life came for most of a lease, this server or the network was down rather than its worker: the lease
-- starts again if it was renewed since the last such extension. After a restart the latest renewal gives the time of the
-- last sign of life.
local function note_sign_of_life()
    allow_when_full()
    local key = root .. 'signs_of_life' -- releases without networks have `signs`, and extend fewer leases
    local last = tonumber(call('HGET', key, 'heard') or 0)
    write_unreplicated('HSET', key, 'heard', now)
    if last <= now and now - last < SHORTEST_OUTAGE then return end
    local leases = {}
    for _, queue in ipairs(QUEUES) do
        local found = call('ZRANGE', queue_key(queue, 'leases'), 0, -1, 'WITHSCORES')
        for position = 1, #found, 2 do
            local job = read(found[position])
            -- Its worker may have set it otherwise than this instance; some releases do not record it.
            local length = job and job.lease or args.lease_ms
            local renewed = tonumber(found[position + 1]) - length
            last = math.max(last, renewed)
            leases[#leases + 1] = {queue = queue, id = found[position], length = length, renewed = renewed}
        end
    end
    local spared = tonumber(call('HGET', key, 'spared') or 0)
    local is_outage = false
    for _, lease in ipairs(leases) do
        if now - last >= lease.length * 0.7 then
            is_outage = true
            if lease.renewed > spared then call('ZADD', queue_key(lease.queue, 'leases'), now + lease.length, lease.id) end
        end
    end
    if is_outage then call('HSET', key, 'spared', now) end
end

-- If the clock was set back, as by a failover, no lease may be longer than that of its worker. Leases of releases that
-- do not record the length stay.
local function shorten_leases(queue)
    local leases = queue_key(queue, 'leases')
    for _, id in ipairs(call('ZRANGEBYSCORE', leases, '(' .. now + args.lease_ms, '+inf')) do
        local job = read(id)
        local ends = tonumber(call('ZSCORE', leases, id))
        if not job or job.state ~= 'processing' then
            call('ZADD', leases, now, id) -- ends now
        elseif job.lease and ends > now + job.lease then
            call('ZADD', leases, now + job.lease, id)
        end
    end
end

-- Requeues jobs whose lease ended; a higher fencing token refuses later reports of their workers.
local function reap(queue)
    shorten_leases(queue)
    local ended = call('ZRANGEBYSCORE', queue_key(queue, 'leases'), '-inf', now, 'LIMIT', 0, 100)
    for _, id in ipairs(ended) do
        local job = read(id)
        if not job or job.state ~= 'processing' then
            call('ZREM', queue_key(queue, 'leases'), id)
            call('ZREM', queue_key(queue, 'running'), id)
        else
            call('HINCRBY', job_key(id), 'fence', 1)
            give_back(id, job, 'lease_lost', 'its worker stopped responding')
        end
    end
    return #ended
end

local function reply(fields)
    fields.events = events
    return cmsgpack.pack(fields)
end
