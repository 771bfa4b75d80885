-- Precedes every script. KEYS[1] is the prefix of all names, ARGV[1] the named arguments as msgpack.
--
-- A lane is: its waiting jobs as "group|circuit|rank|job" in one sorted set without scores (`pending`); the groups whose
-- turn comes as "circuit|turn|group" (`rings`), the turn of each group (`turns`); and its running jobs by the end of
-- their lease (`leases`) and by their start (`running`). A group is a tree, or "-" for all jobs without one. A rank is
-- the batch index, then the order of submission. Times are milliseconds of this server.

local call = redis.call
local root = KEYS[1]
local args = cmsgpack.unpack(ARGV[1])
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local events = {}

local LANES = {'zk_update_queue', 'zk_append_queue', 'zk_address_append_queue'}
local DAY = 86400000
local WAKE_UPS_TO_SPARE = 64
local JOB_FIELDS = {
    'state', 'lane', 'type', 'label', 'circuit', 'tree', 'index', 'group', 'rank', 'digest', 'size', 'created', 'queued',
    'started', 'attempt', 'fence', 'cancel'
}

local function job_key(id) return root .. 'job:' .. id end
local function body_key(id) return root .. 'body:' .. id end
local function digest_key(digest) return root .. 'digest:' .. digest end
local function lane_key(lane, name) return root .. lane .. ':' .. name end
local function sequence() return call('INCR', root .. 'sequence') end

local function tell(kind, id, job, detail, waited)
    events[#events + 1] = {
        kind = kind, id = id, lane = job.lane, type = job.type, detail = detail or '', waited = waited or -1
    }
end

local function announce(id) call('PUBLISH', root .. 'events', id) end

-- The fields of a job; nil when there is none.
local function read(id)
    local values = call('HMGET', job_key(id), unpack(JOB_FIELDS))
    if not values[1] then return nil end
    local job = {}
    for position, name in ipairs(JOB_FIELDS) do job[name] = values[position] end
    for _, name in ipairs({'size', 'created', 'queued', 'attempt', 'fence'}) do job[name] = tonumber(job[name]) end
    return job
end

-- Wake-ups: entries of arq's sorted set, each with its arq job. A worker uses one up when it claims, so there should be
-- one per waiting job. arq ignores a score of 0 and one in the future by its own clock; a number is always past.

local function add_wake_up(lane, at)
    local number = sequence()
    local id = root .. lane .. ':' .. string.format('%d', number)
    local job = cjson.encode({t = 1, f = args.wake_up_function, a = {lane}, k = {}, et = now})
    call('SET', 'arq:job:' .. id, job, 'PX', DAY)
    call('ZADD', root .. lane, at or number, id)
end

-- Jobs that end unclaimed leave their wake-ups behind; without workers nobody else would remove those.
local function trim_wake_ups(lane)
    if call('ZCARD', root .. lane) <= call('ZCARD', lane_key(lane, 'pending')) + WAKE_UPS_TO_SPARE then return end
    local last = call('ZRANGE', root .. lane, -1, -1)[1]
    if call('EXISTS', 'arq:in-progress:' .. last) == 1 then return end
    call('ZREM', root .. lane, last)
    call('DEL', 'arq:job:' .. last, 'arq:retry:' .. last)
end

-- The line of waiting jobs.

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

local function all_circuits(lane) return words(lane_key(lane, 'rings'), '', '+') end

local function circuits_of(lane, group)
    return words(lane_key(lane, 'pending'), group .. '|', '(' .. group .. '}')
end

local function place(job, id) return job.group .. '|' .. job.circuit .. '|' .. job.rank .. '|' .. id end

local function enqueue(id, job)
    local lane = job.lane
    call('ZADD', lane_key(lane, 'pending'), 0, place(job, id))
    call('ZADD', lane_key(lane, 'waiting'), job.queued, id)
    call('HINCRBY', lane_key(lane, 'types'), job.label, 1)
    local turn = call('HGET', lane_key(lane, 'turns'), job.group)
    if not turn then
        turn = string.format('%016d', sequence())
        call('HSET', lane_key(lane, 'turns'), job.group, turn)
    end
    call('ZADD', lane_key(lane, 'rings'), 0, job.circuit .. '|' .. turn .. '|' .. job.group)
end

-- Takes a job out of its line. `served` sends its group to the end of the ring.
local function dequeue(id, job, served)
    local lane, group = job.lane, job.group
    call('ZREM', lane_key(lane, 'pending'), place(job, id))
    call('ZREM', lane_key(lane, 'waiting'), id)
    if call('HINCRBY', lane_key(lane, 'types'), job.label, -1) <= 0 then
        call('HDEL', lane_key(lane, 'types'), job.label)
    end
    local rings, turns = lane_key(lane, 'rings'), lane_key(lane, 'turns')
    local turn = call('HGET', turns, group)
    if not turn then return end
    local left = circuits_of(lane, group)
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
    elseif not first(lane_key(lane, 'pending'), group .. '|' .. job.circuit) then
        call('ZREM', rings, job.circuit .. '|' .. turn .. '|' .. group)
    end
end

-- Ends of jobs.

local function release(id, job)
    call('ZREM', lane_key(job.lane, 'leases'), id)
    call('ZREM', lane_key(job.lane, 'running'), id)
end

local function forget_digest(id, job)
    if call('GET', digest_key(job.digest)) == id then call('DEL', digest_key(job.digest)) end
end

-- Removes a final job from an index of such.
local function remove_final(index, id)
    local job = read(id)
    if job then
        forget_digest(id, job)
        call('DEL', job_key(id))
    end
    call('ZREM', index, id)
end

-- Whoever submits and cancels all day fills the memory no further than this: the oldest failures go before their time.
local function trim_failures()
    local surplus = call('ZCARD', root .. 'failed') - args.kept_failures
    if surplus < 1 then return end
    for _, id in ipairs(call('ZRANGE', root .. 'failed', 0, math.min(surplus, 100) - 1)) do
        remove_final(root .. 'failed', id)
    end
end

-- A job that is in no line any more becomes final. `keep` milliseconds later it is gone.
local function settle(id, job, state, keep, remember, ...)
    local key = job_key(id)
    announce(id)
    call('HDEL', key, 'label', 'circuit', 'tree', 'index', 'group', 'rank', 'size', 'queued', 'owner')
    call('HSET', key, 'state', state, 'ended', now, ...)
    call('PEXPIRE', key, keep)
    call('DEL', body_key(id))
    call('DECRBY', lane_key(job.lane, 'bytes'), job.size)
    call('ZADD', root .. (state == 'completed' and 'results' or 'failed'), now, id)
    if state == 'failed' then trim_failures() end
    if not remember then
        forget_digest(id, job)
    elseif call('GET', digest_key(job.digest)) == id then
        call('PEXPIRE', digest_key(job.digest), keep)
    end
end

local function settle_failed(id, job, kind, error)
    settle(id, job, 'failed', args.failure_ms, false, 'error', error)
    tell(kind, id, job, error)
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
    tell('expired', id, job, error, waited)
    trim_wake_ups(job.lane)
end

-- Running jobs.

-- The job of a claim when its lease holds; otherwise nil, and whatever is there.
local function held(id, fence)
    local job = read(id)
    if job and job.state == 'processing' and job.fence == fence then return job, job end
    return nil, job
end

-- An attempt ends without a result: the job waits again, or fails when it may not.
local function give_back(id, job, kind, reason)
    release(id, job)
    if job.cancel then
        settle_failed(id, job, 'cancelled', 'cancelled')
    elseif job.attempt >= args.attempts then
        settle_failed(id, job, 'quarantined', 'gave up after ' .. job.attempt .. ' attempts: ' .. reason)
    else
        job.queued = now
        call('HSET', job_key(id), 'state', 'queued', 'queued', now)
        call('HDEL', job_key(id), 'started')
        enqueue(id, job)
        add_wake_up(job.lane)
        announce(id)
        tell(kind, id, job, reason)
    end
end

-- A write that need not last: neither the append-only file nor replicas get it, so nobody waits for a disk because an
-- instance says every few seconds that it is there. After a restart or a failover it is missing or as old as the last
-- snapshot, and its readers know what that means. A server that cannot do so writes it like any other.
local function write_lightly(...)
    pcall(redis.set_repl, redis.REPL_NONE)
    call(...)
    pcall(redis.set_repl, redis.REPL_ALL)
end

-- When its memory is full Redis refuses what needs some to scripts that wrote nothing yet. Those that keep or free what
-- is there need next to none, so they begin with a write that needs none.
local function go_on_when_full() call('DEL', root .. 'nothing') end

-- When nobody was heard for most of a lease, this server or the way to it was down rather than every worker: leases
-- that were renewed since this was done last begin anew. After a restart the latest renewal tells when that was.
local function hear()
    go_on_when_full()
    local key = root .. 'signs'
    local last = tonumber(call('HGET', key, 'heard') or 0)
    for _, lane in ipairs(LANES) do
        local latest = call('ZRANGE', lane_key(lane, 'leases'), -1, -1, 'WITHSCORES')[2]
        if latest then last = math.max(last, latest - args.lease_ms) end
    end
    write_lightly('HSET', key, 'heard', now)
    if now - last < args.lease_ms * 0.7 then return end
    local spared = tonumber(call('HGET', key, 'spared') or 0)
    call('HSET', key, 'spared', now)
    for _, lane in ipairs(LANES) do
        local leases = lane_key(lane, 'leases')
        for _, id in ipairs(call('ZRANGEBYSCORE', leases, spared + args.lease_ms + 1, '+inf')) do
            call('ZADD', leases, now + args.lease_ms, id)
        end
    end
end

-- Gives back jobs whose lease ended; a higher fencing token refuses what their workers may still say.
local function reap(lane)
    local ended = call('ZRANGEBYSCORE', lane_key(lane, 'leases'), '-inf', now, 'LIMIT', 0, 100)
    for _, id in ipairs(ended) do
        local job = read(id)
        if not job or job.state ~= 'processing' then
            call('ZREM', lane_key(lane, 'leases'), id)
            call('ZREM', lane_key(lane, 'running'), id)
        else
            call('HINCRBY', job_key(id), 'fence', 1)
            give_back(id, job, 'lease_lost', 'its worker stopped responding')
        end
    end
    return #ended
end

-- Whether the caller may sweep: on a timer that is who has the role at this moment, on demand anybody.
local function may_sweep()
    return not args.owner or call('GET', root .. 'role:' .. args.role) == args.owner
end

local function reply(fields)
    fields.events = events
    return cmsgpack.pack(fields)
end
