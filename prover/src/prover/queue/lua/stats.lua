-- Counts jobs, by reads that do not grow with their number.
local queues = {}
for position, queue in ipairs(QUEUES) do
    local pending, turns = queue_key(queue, 'pending'), queue_key(queue, 'turns')
    local oldest = call('ZRANGE', queue_key(queue, 'waiting'), 0, 0, 'WITHSCORES')[2]
    queues[position] = {
        lane = queue,
        waiting = call('ZCARD', pending),
        without_tree = call('ZLEXCOUNT', pending, '[-|', '(-}'),
        trees = call('HLEN', turns) - call('HEXISTS', turns, '-'),
        processing = call('ZCARD', queue_key(queue, 'leases')),
        stuck = call('ZCOUNT', queue_key(queue, 'running'), '-inf', now - args.stuck_ms),
        oldest = oldest and math.max(now - tonumber(oldest), 0) or 0,
        types = call('HGETALL', queue_key(queue, 'types')),
        bytes = tonumber(call('GET', queue_key(queue, 'bytes'))) or 0,
        wake_ups = call('ZCARD', root .. queue)
    }
end
return reply({
    lanes = queues,
    failed = call('ZCOUNT', root .. 'failed', '(' .. string.format('%d', now - args.failure_ms), '+inf'),
    results = call('ZCOUNT', root .. 'results', '(' .. string.format('%d', now - args.result_ms), '+inf'),
    now = now,
    sweeper = call('GET', root .. 'sweeper') or ''
})
