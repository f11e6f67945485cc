-- What Argo CD makes of a Stack, by the rules of its health check for this kind: a spec that was not observed yet is
-- in progress; else the first condition that is True and has a meaning here decides, and its message is the message.
local meanings = { Stalled = "Degraded", Reconciling = "Progressing", Ready = "Healthy" }
local status = obj.status or {}

if status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the spec was not observed yet" }
end
for _, condition in ipairs(status.conditions or {}) do
  local meaning = meanings[condition.type]
  if meaning and condition.status == "True" then
    return { status = meaning, message = condition.message }
  end
end
return { status = "Progressing", message = "there is no condition yet" }
