-- Counts, each by a read that does not grow with the number of jobs.
local lanes = {}
for position, lane in ipairs(LANES) do
    local pending, turns = lane_key(lane, 'pending'), lane_key(lane, 'turns')
    local oldest = call('ZRANGE', lane_key(lane, 'waiting'), 0, 0, 'WITHSCORES')[2]
    lanes[position] = {
        lane = lane,
        waiting = call('ZCARD', pending),
        without_tree = call('ZLEXCOUNT', pending, '[-|', '(-}'),
        trees = call('HLEN', turns) - call('HEXISTS', turns, '-'),
        processing = call('ZCARD', lane_key(lane, 'leases')),
        stuck = call('ZCOUNT', lane_key(lane, 'running'), '-inf', now - args.stuck_ms),
        oldest = oldest and math.max(now - tonumber(oldest), 0) or 0,
        types = call('HGETALL', lane_key(lane, 'types')),
        bytes = tonumber(call('GET', lane_key(lane, 'bytes'))) or 0,
        wake_ups = call('ZCARD', root .. lane)
    }
end
return reply({
    lanes = lanes,
    failed = call('ZCOUNT', root .. 'failed', '(' .. string.format('%d', now - args.failure_ms), '+inf'),
    results = call('ZCOUNT', root .. 'results', '(' .. string.format('%d', now - args.result_ms), '+inf'),
    now = now
})
