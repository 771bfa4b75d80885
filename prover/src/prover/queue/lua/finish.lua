-- Completes a running job. ARGV[2] is the proof.
local job, found = held(args.id, args.fence)
if not job then
    return reply({done = found ~= nil and found.state == 'completed' and found.fence == args.fence})
end
release(args.id, job)
settle(args.id, job, 'completed', args.result_ms, true, 'proof', ARGV[2], 'duration', args.duration_ms)
report('completed', args.id, job)
return reply({done = true})
