-- Finds the job of an equal body, or creates one: its digest, hash, body, queue entry and a wake-up.
-- ARGV[2] is the body. `fresh` creates a job even if the digest has one.
local queue = args.queue
local id = job_of_digest(args.digest)
if args.fresh and id ~= args.id then id = nil end
if id and read(id) then
    if id ~= args.id then
        allow_when_full()
        call('HSET', job_key(id), 'shared', 1)
        report('deduplicated', id, {queue = queue, type = args.type})
    end
    local nonce = call('HGET', job_key(id), 'nonce')
    return reply({outcome = id == args.id and 'new' or 'duplicate', id = id, nonce = nonce or ''})
end

local size = #ARGV[2]

local function is_queue_full()
    local bytes = tonumber(call('GET', queue_key(queue, 'bytes')) or 0)
    return call('ZCARD', queue_key(queue, 'pending')) >= args.jobs_per_queue or bytes + size > args.bytes_per_queue
end

-- A tenth stays free: arq cannot start a job in a Redis without any room. One that evicts always makes room. Some
-- services refuse INFO to their users.
local function is_redis_full()
    local facts = redis.pcall('INFO', 'memory')
    if type(facts) ~= 'string' or string.match(facts, 'maxmemory_policy:(%a+)') ~= 'noeviction' then return false end
    local function bytes_of(name) return tonumber(string.match(facts, name .. ':(%d+)') or 0) end
    local maximum = bytes_of('maxmemory')
    return maximum > 0 and bytes_of('used_memory') - bytes_of('mem_not_counted_for_evict') + size > maximum * 0.9
end

if is_queue_full() then
    report('refused', args.id, {queue = queue, type = args.type})
    return reply({outcome = 'full', id = args.id})
end
if is_redis_full() then return reply({outcome = 'no_room', id = args.id}) end

local job = {
    queue = queue, type = args.type, label = args.label, circuit = args.circuit, group = args.group, queued = now,
    rank = args.order .. '|' .. string.format('%016d', sequence())
}
call('SET', digest_key(args.digest), args.id)
call('SET', body_key(args.id), ARGV[2])
call('INCRBY', queue_key(queue, 'bytes'), size)
call(
    'HSET', job_key(args.id), 'state', 'queued', 'lane', args.lane, 'type', args.type, 'label', args.label, 'circuit',
    args.circuit, 'tree', args.tree, 'index', args.index, 'group', args.group, 'rank', job.rank, 'digest', args.digest,
    'size', size, 'created', now, 'queued', now, 'attempt', 0, 'fence', 0, 'nonce', args.nonce, 'proves', args.circuit,
    'inputs', args.inputs
)
if queue ~= args.lane then call('HSET', job_key(args.id), 'queue', queue) end
enqueue(args.id, job)
add_wake_up(queue)
report('submitted', args.id, job)
return reply({outcome = 'new', id = args.id})
